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

-- How many numbers a state of each kind has after its end, and whether the last
-- of them is the length of a block.
local NUMBERS = { 2, 2, 1, 4, 3, 3, 1, 2 }
local HAS_BLOCK = { [2] = true, [4] = true, [7] = true }
-- So many numbers, up to the last.
local UP_TO_LAST = {
  '^', '^[\128-\255]*.', '^[\128-\255]*.[\128-\255]*.', '^[\128-\255]*.[\128-\255]*.[\128-\255]*.',
}

-- The state that begins at `from`, or nothing if none does. Its numbers begin
-- at `at`, and it ends at `to`.
local function state_at(value, from)
  local head = byte(value, from + 3)
  local kind = floor((head or 0) / 16)
  if not NUMBERS[kind] then
    return nil
  end
  local units, at = read(value, from + 4)
  local _, before = find(value, UP_TO_LAST[NUMBERS[kind]], at)
  if not before then
    return nil
  end
  local last, after = read(value, before + 1)
  return {
    id = sub(value, from, from + 2),
    kind = kind,
    ends = EPOCH + units * 8 ^ (head % 16),
    from = from,
    at = at,
    to = after - 1 + (HAS_BLOCK[kind] and last or 0),
  }
end

-- All states of a value. What cannot be read counts as none.
local function states_of(value)
  local states, state = {}, state_at(value, 1)
  while state do
    states[#states + 1] = state
    state = state_at(value, state.to + 1)
  end
  return states
end

-- The time from which none of them counts any more.
local function end_of(states)
  local latest = 0
  for i = 1, #states do
    latest = max(latest, states[i].ends)
  end
  return latest
end

-- What is kept of the principal `name` in the bucket `key`.
local function open(key, name)
  local value = redis.call('HGET', key, name)
  return { key = key, name = name, value = value, states = value and states_of(value) or {} }
end

-- The state of a counter, if there is one of this kind.
local function state_of(field, id, kind)
  for i = 1, #field.states do
    local state = field.states[i]
    if state.id == id and state.kind == kind then
      return state
    end
  end
end

-- Removes fields of which nothing counts any more. It looks at a bounded number
-- of them, at others each time: a script must not take long.
local function clean(key, now)
  local found = redis.call('HRANDFIELD', key, CLEAN_AT_MOST, 'WITHVALUES')
  local over = {}
  for i = 1, #found, 2 do
    if end_of(states_of(found[i + 1])) + GRACE <= now then
      over[#over + 1] = found[i]
    end
  end
  if #over > 0 then
    redis.call('HDEL', key, unpack(over))
  end
end

-- A bucket that nobody uses any more goes as a whole.
local function live_until(key, ends, now)
  local needed = ceil((ends - now) / 1000)
  if redis.call('PTTL', key) < needed + LINGER / 2 then
    redis.call('PEXPIRE', key, needed + LINGER)
  end
end

-- Keeps a field: of the states that were changed their new bytes, if there are
-- any; the others as they are, unless they are over.
local function close(field, before, now)
  local kept, ends = {}, 0
  for i = 1, #field.states do
    local state = field.states[i]
    local bytes = state.bytes
    if bytes == nil and state.ends + GRACE > now then
      bytes = sub(field.value, state.from, state.to)
    end
    if bytes then
      kept[#kept + 1] = bytes
      ends = max(ends, state.ends)
    end
  end
  local value = concat(kept)
  if value == (field.value or '') then
    return
  elseif value == '' then
    redis.call('HDEL', field.key, field.name)
    return
  end
  redis.call('HSET', field.key, field.name, value)
  if ends > before then
    live_until(field.key, ends, now)
  end
  if not field.value and (now + byte(field.name)) % CLEAN_EVERY == 0 then
    clean(field.key, now)
  end
end
