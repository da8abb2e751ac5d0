-- Notes at KEYS[1] that a digest belongs to the key ARGV[1], unless it belongs to another one: then
-- the answer is the id of that. The entry stays for ARGV[2] milliseconds, or for ever if that is 0.
local present = redis.call('GET', KEYS[1])
if present and present ~= ARGV[1] then
    return present
end
if tonumber(ARGV[2]) > 0 then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
else
    redis.call('SET', KEYS[1], ARGV[1])
end
return ''
