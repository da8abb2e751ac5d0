-- The commonest body, decided in half the time: one field, and units taken from
-- the sliding windows that are all it has, or will be: with numbers alone, without
-- tables. It may also ask for bans, as long as there are none. Whatever else a
-- body asks or a field holds is left to the decision that knows everything.

local TAKE = 1
-- The head of a window or a ban, without a third of the exponent.
local SLIDING, BAN = 16, 128
-- What passes when no ban lasts is not counted.
local UNLIMITED = 549755813887

-- Decides a body of one field. It tells the value that it found, and whether the
-- body is refused: nil if it decided nothing.
local function decide_plain(key, body, now)
  local name, charges, at = unpack_bytes('<c7B', body, 2)
  local before = fetch(key, name)
  local value, latest, latest_before, from, size, refused = '', 0, 0, 1, #before, false
  for _ = 1, charges do
    local prefix, op, binding, cost = unpack_bytes('<c4BBI6', body, at)
    local head = byte(prefix, 4)
    local third = head % 16
    local kind = head - third
    if op ~= TAKE or binding ~= 1 or cost == 0 or kind ~= SLIDING and kind ~= BAN then
      return before, nil
    end
    -- Both kinds have two numbers.
    local limit, length
    limit, length, at = unpack_bytes('<I6I6', body, at + 12)
    if kind == SLIDING then
      local ends, current, previous = 0, 0, 0
      if size > 0 then
        if sub(before, from, from + 3) ~= prefix then
          return before, nil
        end
        ends, from = end_of(before, from, third)
        current, previous, from = read_two(before, from)
        latest_before = max(latest_before, ends)
      end
      local window, left
      window, left, current, previous = slide(now, length, ends, current, previous)
      refused = refused or current + cost + fading(previous, left, length) > limit
      local lead
      lead, ends = begin_state(prefix, third, window + length)
      value, latest = value .. lead .. write_two(current + cost, previous), max(latest, ends)
    elseif cost > UNLIMITED then
      return before, nil
    end
  end
  -- What was not read is a ban, or something that the body does not ask for.
  if size > 0 and from <= size then
    return before, nil
  elseif not refused then
    keep(key, name, value, before, latest, latest_before, now)
  end
  return before, refused
end
