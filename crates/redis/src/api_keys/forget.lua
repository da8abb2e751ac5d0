-- Removes the key ARGV[1] from the index KEYS[2] if its record KEYS[1] has ended.
if not redis.call('GET', KEYS[1]) then
    redis.call('HDEL', KEYS[2], ARGV[1])
end
return 0
