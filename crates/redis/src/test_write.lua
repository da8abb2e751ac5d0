-- Runs each command that decisions and upkeep need once, on a key of its own, which is gone
-- afterwards. Returns nothing, or the first command that failed and its error. If ARGV[1] is 0,
-- scripts do not ask for the time.
local key = KEYS[1]
local commands = {
    { 'HSET', key, 'a', '1' }, { 'EXPIRE', key, 1 }, { 'PEXPIRE', key, 1000 },
    { 'PTTL', key }, { 'HGET', key, 'a' }, { 'HGETALL', key }, { 'HRANDFIELD', key, 1 },
    { 'HDEL', key, 'a' },
}
if ARGV[1] == '1' then
    table.insert(commands, 1, { 'TIME' })
end
for _, command in ipairs(commands) do
    local reply = redis.pcall(unpack(command))
    if type(reply) == 'table' and reply.err then
        redis.pcall('HDEL', key, 'a')
        return { command[1], reply }
    end
end
return {}
