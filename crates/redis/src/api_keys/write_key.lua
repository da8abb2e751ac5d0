-- Writes the record KEYS[1] of the key ARGV[1], if the present one begins with the version ARGV[2];
-- an empty text means that there is none. ARGV[3] is the record, with its new version. It stays for ARGV[4]
-- milliseconds, or for ever if that is 0. The index of the part, KEYS[2], and its ids, KEYS[4], get the
-- id. KEYS[3] is the sign that the part has keys. Returns 0, or 1: another version, 2: there is no sign.
local record, index, sign, ids = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local id, expected, value, lasts = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local present = redis.call('GET', record)
if expected ~= (present and string.sub(present, 1, 16) or '') then
    return 1
end
if not redis.call('GET', sign) and ARGV[5] ~= 'restore' then
    return 2
end
if lasts > 0 then
    redis.call('SET', record, value, 'PX', lasts)
else
    redis.call('SET', record, value)
end
if not redis.call('HGET', index, id) then
    redis.call('HSET', index, id, '')
end
redis.call('ZADD', ids, 0, id)
return 0
