-- Writes the mark ARGV[1] and the entries that follow it by name and value, if there is no
-- mark: the server was emptied.
if not redis.call('HGET', KEYS[1], '') then
    redis.call('HSET', KEYS[1], '', ARGV[1])
    for i = 2, #ARGV, 2 do
        redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1])
    end
end
return 0
