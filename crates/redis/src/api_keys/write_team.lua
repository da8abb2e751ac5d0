-- Writes the record ARGV[3] of the team ARGV[1], if the present one begins with the version ARGV[2];
-- an empty text means that there is none. The field without a name counts the teams, of which there are at most
-- ARGV[4]. Returns 0, or 1: another version, 2: no room.
local teams, name, expected, value = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
local present = redis.call('HGET', teams, name)
if expected ~= (present and string.sub(present, 1, 16) or '') then
    return 1
end
if not present then
    local count = tonumber(redis.call('HGET', teams, '') or '0')
    if count >= tonumber(ARGV[4]) then
        return 2
    end
    redis.call('HSET', teams, '', count + 1)
end
redis.call('HSET', teams, name, value)
return 0
