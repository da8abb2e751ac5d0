-- Notes in the index KEYS[1] when keys were last used: ARGV has pairs of an id and seconds since
-- 1970. Keys that are not in the index are gone.
for i = 1, #ARGV, 2 do
    local noted = redis.call('HGET', KEYS[1], ARGV[i])
    if noted and (tonumber(noted) or 0) < tonumber(ARGV[i + 1]) then
        redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    end
end
return 0
