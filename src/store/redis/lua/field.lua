-- A field: all states of one principal, one after the other.
--
-- A state is: the counter's id (3 bytes); a head of one byte, the kind times 16
-- and a third of the exponent e; its end, in units of 2^e microseconds since
-- 2025-01-01 and rounded up, in 4 bytes, or in 6 where a unit is shorter than a
-- quarter of a second; then as many numbers as its kind has; then, for some
-- kinds, a block of bytes whose length is the last number. From its end on a
-- state is surely worth nothing. So what is over can be told, and removed,
-- without knowing its policy; and a window is told by its end.

local call = redis.call

local EPOCH = 1735689600000000
-- What ends later, in the year 2060, is said to end here: it fits into four bytes.
local LATEST = 2861589506580480
-- A clock that is set back by less than this finds nothing forgotten.
local GRACE = 1000000
-- A bucket lives for half an hour after its last state, in milliseconds. How long
-- it will is looked up when a state ends in a later one of these steps than the
-- one before, in microseconds, and set again if it is not enough: so it is never
-- less than five minutes.
local LINGER, ENOUGH = 1800000, 1200000
local STEP = 900000000
-- One of so many fields that are made looks for what is over, among so many.
local CLEAN_EVERY = 32
local CLEAN_AT_MOST = 128

-- By kind, how many numbers a state has after its end.
local NUMBERS = { 2, 2, 1, 4, 3, 3, 1, 2 }
-- The kinds of which the last number is the length of a block.
local HAS_BLOCK = { [2] = true, [4] = true, [7] = true }

-- When the state at `from` ends, by the third of its exponent, and where its
-- numbers begin. A value that ends too early ends the state, too.
local function end_of(value, from, third)
  if third >= 6 and from + 7 <= #value then
    return EPOCH + unpack_bytes('<I4', value, from + 4) * 8 ^ third, from + 8
  elseif third < 6 and from + 9 <= #value then
    return EPOCH + unpack_bytes('<I6', value, from + 4) * 8 ^ third, from + 10
  end
  return 0, #value + 1
end

-- How a state with this id and head begins that ends then, or a part of a unit
-- later; and when it does.
local function begin_state(prefix, third, ends)
  local unit = 8 ^ third
  ends = min(ends, LATEST)
  ends = max(EPOCH, ends + (EPOCH - ends) % unit)
  return pack_bytes(third >= 6 and '<c4I4' or '<c4I6', prefix, (ends - EPOCH) / unit), ends
end

-- When the state at `from` ends, and where the next one begins. What cannot be
-- read, or ends when no state does, has ended, and nothing comes after it.
local function skip(value, from)
  local head = byte(value, from + 3) or 0
  local third = head % 16
  local kind = (head - third) / 16
  if not NUMBERS[kind] then
    return 0, #value + 1
  end
  local ends, at = end_of(value, from, third)
  if ends > 2 * LATEST then
    return 0, #value + 1
  end
  local number
  for _ = 1, NUMBERS[kind] do
    number, at = read(value, at)
  end
  return ends, HAS_BLOCK[kind] and at + number or at
end

-- Where the state with this id and head begins, if there is one. It is looked
-- for where it is expected, and then everywhere.
local function find(value, prefix, expected)
  if sub(value, expected, expected + 3) == prefix then
    return expected
  end
  local from = 1
  while from <= #value do
    if sub(value, from, from + 3) == prefix then
      return from
    end
    local _
    _, from = skip(value, from)
  end
end

-- Makes sure that a bucket lives until `ends`. When nobody uses it any more, it
-- goes as a whole.
local function live_until(key, ends, now)
  local needed = ceil((ends - now) / 1000)
  if call('PTTL', key) < needed + ENOUGH then
    call('PEXPIRE', key, needed + LINGER)
  end
end

-- Removes fields of which nothing counts any more. It looks at a bounded number
-- of them, at others each time: a script must not take long.
local function clean(key, now)
  local found, over = call('HRANDFIELD', key, CLEAN_AT_MOST, 'WITHVALUES'), {}
  for i = 1, #found, 2 do
    local value, from, latest = found[i + 1], 1, 0
    while from <= #value do
      local ends
      ends, from = skip(value, from)
      latest = max(latest, ends)
    end
    if latest + GRACE <= now then
      over[#over + 1] = found[i]
    end
  end
  if #over > 0 then
    call('HDEL', key, unpack(over))
  end
end

-- Keeps a field, whose states end at `ends` now and ended at `ended` before.
local function keep(key, name, value, before, ends, ended, now)
  if value == before then
    return
  elseif value == '' then
    call('HDEL', key, name)
    return
  end
  call('HSET', key, name, value)
  if ends - ends % STEP > ended then
    live_until(key, ends, now)
  end
  if before == '' and (now + byte(name)) % CLEAN_EVERY == 0 then
    clean(key, now)
  end
end
