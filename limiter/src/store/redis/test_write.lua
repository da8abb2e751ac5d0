-- Runs each command that decisions and upkeep need once, on a key of its own, which is gone
-- afterwards. Returns nothing, or the first command that failed and its error.
local key = KEYS[1]
local commands = {
    { 'TIME' }, { 'HSET', key, 'a', '1' }, { 'EXPIRE', key, 1 }, { 'PEXPIRE', key, 1000 },
    { 'PTTL', key }, { 'HGET', key, 'a' }, { 'HGETALL', key }, { 'HRANDFIELD', key, 1 },
    { 'HDEL', key, 'a' },
}
for _, command in ipairs(commands) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
        redis.pcall('HDEL', key, 'a')
        return { command[1], reply }
    end
end
return {}
