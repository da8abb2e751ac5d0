-- Removes the key ARGV[1] from the index KEYS[2] and the ids KEYS[3] if its record KEYS[1] has ended.
if not redis.call('GET', KEYS[1]) then
    redis.call('HDEL', KEYS[2], ARGV[1])
    redis.call('ZREM', KEYS[3], ARGV[1])
end
return 0
