-- Writes the entry ARGV[1] with the value ARGV[3], or removes it if that is empty, if the
-- present entry begins with the version ARGV[2]: nothing for none, * for any. Notes the mark
-- ARGV[4]. There are at most ARGV[5] entries. Returns 0, or 1: another version, 2: no room.
local entries, name, expected, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local present = redis.call('HGET', entries, name)
if expected ~= '*' and expected ~= (present and string.sub(present, 1, 16) or '') then
    return 1
end
if value == '' then
    redis.call('HDEL', entries, name)
else
    if not present then
        local all, count = redis.call('HGETALL', entries), 0
        for i = 1, #all, 2 do
            if all[i] ~= '' then
                count = count + 1
            end
        end
        if count >= tonumber(ARGV[5]) then
            return 2
        end
    end
    redis.call('HSET', entries, name, value)
end
redis.call('HSET', entries, '', ARGV[4])
return 0
