-- A field: all states of one principal, one after the other.
--
-- A state is: the counter's id (3 bytes); a head of one byte, the kind times 16
-- and a third of the exponent e; its end, in units of 2^e microseconds since
-- 2025-01-01 and rounded up; then as many numbers as its kind has; then, for
-- some kinds, a block of bytes whose length is the last number. From its end on
-- a state is surely worth nothing. So what is over can be told, and removed,
-- without knowing its policy; and a window is told by its end.

local EPOCH = 1735689600000000
-- A clock that is set back by less than this finds nothing forgotten.
local GRACE = 1000000
-- A bucket lives so many milliseconds longer than its last state. An hour,
-- because then its expiry is seldom set, and a clock that is off loses nothing.
local LINGER = 3600000
-- One of so many fields that are made looks for what is over, among so many.
local CLEAN_EVERY = 32
local CLEAN_AT_MOST = 128

-- By kind times 16, how many numbers a state has after its end.
local NUMBERS = {
  [16] = 2, [32] = 2, [48] = 1, [64] = 4, [80] = 3, [96] = 3, [112] = 1, [128] = 2,
}
-- The kinds of which the last number is the length of a block.
local HAS_BLOCK = { [32] = true, [64] = true, [112] = true }

-- The states of a value, and the time from which none of them counts. A state's
-- numbers have names, `last` is the last of them; its block begins at `at`, and
-- all of it is in `from` to `to`. What cannot be read counts as none.
local function states_of(value)
  local states, latest, from, size = {}, 0, 1, #value
  while from < size do
    local head = byte(value, from + 3) or 0
    local exponent = head % 16
    local numbers = NUMBERS[head - exponent]
    if not numbers then
      break
    end
    local units, first, second, third, last, at
    units, at = read(value, from + 4)
    first, at = read(value, at)
    last = first
    if numbers > 1 then
      second, at = read(value, at)
      last = second
    end
    if numbers > 2 then
      third, at = read(value, at)
      last = third
    end
    if numbers > 3 then
      last, at = read(value, at)
    end
    local to = HAS_BLOCK[head - exponent] and at + last - 1 or at - 1
    local prefix, ends = sub(value, from, from + 3), EPOCH + units * 8 ^ exponent
    states[#states + 1] = {
      prefix = prefix, ends = ends, first = first, second = second, third = third,
      at = at, from = from, to = to,
    }
    latest, from = max(latest, ends), to + 1
  end
  return states, latest
end

-- What is kept of the principal `name` in the bucket `key`.
local function open(key, name)
  local field = { key = key, name = name, value = redis.call('HGET', key, name), states = nil, ends = 0 }
  if field.value then
    field.states, field.ends = states_of(field.value)
  else
    field.states = {}
  end
  return field
end

-- Makes sure that a bucket lives until `ends`. When nobody uses it any more, it
-- goes as a whole.
local function live_until(key, ends, now)
  local needed = ceil((ends - now) / 1000)
  if redis.call('PTTL', key) < needed + LINGER / 2 then
    redis.call('PEXPIRE', key, needed + LINGER)
  end
end

-- Removes fields of which nothing counts any more. It looks at a bounded number
-- of them, at others each time: a script must not take long.
local function clean(key, now)
  local found, over = redis.call('HRANDFIELD', key, CLEAN_AT_MOST, 'WITHVALUES'), {}
  for i = 1, #found, 2 do
    local _, ends = states_of(found[i + 1])
    if ends + GRACE <= now then
      over[#over + 1] = found[i]
    end
  end
  if #over > 0 then
    redis.call('HDEL', key, unpack(over))
  end
end

-- Keeps a field: of the states that were changed their new bytes, if there are
-- any; the others as they are, unless they are over.
local function close(field, now)
  local value, ends, before = '', 0, field.value
  for i = 1, #field.states do
    local state = field.states[i]
    local bytes = state.bytes
    if bytes == nil and state.ends + GRACE > now then
      bytes = sub(before, state.from, state.to)
    end
    if bytes then
      value, ends = value .. bytes, max(ends, state.ends)
    end
  end
  if value == (before or '') then
    return
  elseif value == '' then
    redis.call('HDEL', field.key, field.name)
    return
  end
  redis.call('HSET', field.key, field.name, value)
  if ends > field.ends then
    live_until(field.key, ends, now)
  end
  if not before and (now + byte(field.name)) % CLEAN_EVERY == 0 then
    clean(field.key, now)
  end
end
