-- Notes that a node (ARGV[1]) is alive, forgets those that have been silent for
-- ARGV[2] seconds, and returns how many are left. ARGV[3] is the time in seconds since 1970, or 0
-- for the server's clock.
local nodes, node, silence, now = KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
if now == 0 then
    now = tonumber(redis.call('TIME')[1])
end
redis.call('HSET', nodes, node, now)
redis.call('EXPIRE', nodes, silence)
local alive = 0
local seen = redis.call('HGETALL', nodes)
for i = 1, #seen, 2 do
    local at = tonumber(seen[i + 1])
    -- After a fail-over the new master's clock may be behind.
    if at and math.abs(now - at) < silence then
        alive = alive + 1
    else
        redis.call('HDEL', nodes, seen[i])
    end
end
return alive
