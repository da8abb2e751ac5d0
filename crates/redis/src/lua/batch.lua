-- All bodies of a call, one after the other, by one clock. The answer to a body
-- is one byte, whether it was refused; the time; and the values that it found. Where
-- something goes wrong, as with a key that is no hash, it is the error, and the other
-- bodies have their answers.
--
-- The commonest body is decided here, without a table and without a function of its
-- own: one field, and units taken from the sliding windows that are all it has, or
-- will be. It may also ask for bans, as long as there are none. Whatever else a body
-- asks or a field holds is left to the decision that knows everything.

local call, try, byte, char, sub = redis.call, redis.pcall, string.byte, string.char, string.sub
local unpack_bytes, pack_bytes = struct.unpack, struct.pack

-- The head of a window or a ban, without a third of the exponent.
local TAKE, SLIDING, BAN = 1, 16, 128
-- What passes when no ban lasts is not counted.
local UNLIMITED = 549755813887
-- As `field.lua` has them.
local COMPACT, STEP, CLEAN_EVERY = 64, 900000000, 32

local now = tonumber(ARGV[1])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000000 + time[2]
end
local time = pack_bytes('<I7', now)
local admits, refuses = '\0' .. time, '\1' .. time

local fetch, keep, find, skip, clean, share, store_shared
local keys, shared = KEYS, nil
if #keys > 1 then
  local seen = {}
  for i = 1, #keys do
    local key = keys[i]
    if seen[key] then
      shared = shared or {}
      shared[key] = {}
    end
    seen[key] = true
  end
  if shared then
    fetch, keep, find, skip, clean, share, store_shared = define_field(read, end_of, live_until)
    share(shared)
  end
end

local answers, before, decide, finish = {}, 0, nil, nil
for i = 2, #ARGV do
  local body, key = ARGV[i], keys[before + 1]
  local fields, head, found, refused, is_decided = byte(body), byte(body, 13), nil, false, false
  if fields == 1 and head < 32 then
    local is_shared = shared and shared[key]
    local name, charges, at = unpack_bytes('<c7B', body, 2)
    local value, latest, ended, from = '', 0, 0, 1
    local is_read = true
    if is_shared then
      is_read, found = pcall(fetch, key, name)
    else
      found = try('HGET', key, name) or ''
      is_read = not found.err and byte(found, -1) ~= 255
    end
    if not is_read then
      found, charges = nil, 0
    end
    local size = found and #found
    for left = charges, 1, -1 do
      local prefix, op, binding, cost = unpack_bytes('<c4BBI6', body, at)
      head = byte(prefix, 4)
      local third = head % 16
      if op ~= TAKE or binding ~= 1 or cost == 0 then
        break
      elseif head - third == SLIDING then
        local limit, length
        limit, length, at = unpack_bytes('<I6I6', body, at + 12)
        local ends, current, previous = 0, 0, 0
        if size > 0 then
          if sub(found, from, from + 3) ~= prefix then
            break
          end
          ends, from = end_of(found, from, third)
          current, previous = byte(found, from, from + 1)
          if previous and current < 128 and previous < 128 then
            from = from + 2
          else
            current, from = read(found, from)
            previous, from = read(found, from)
          end
          ended = ends > ended and ends or ended
        end
        local window, remains
        window, remains, current, previous = slide(now, length, ends, current, previous)
        current = current + cost
        local counted = current
        if previous > 0 then
          local fading, rest = product_over(previous, remains, length)
          counted = current + fading + (rest > 0 and 1 or 0)
        end
        refused = refused or counted > limit
        local lead
        lead, ends = begin_state(prefix, third, window + length)
        if current < 128 and previous < 128 then
          value = value .. lead .. char(current, previous)
        else
          value = value .. lead .. write(current) .. write(previous)
        end
        latest = ends > latest and ends or latest
      elseif head - third == BAN and cost <= UNLIMITED then
        at = at + 24
      else
        break
      end
      -- What was not read is a ban, or something that the body does not ask for.
      is_decided = left == 1 and from > size
    end
    if is_decided and not refused then
      if is_shared or #value > COMPACT then
        if not keep then
          fetch, keep, find, skip, clean, share, store_shared = define_field(read, end_of, live_until)
        end
        keep(key, name, value, found, latest, ended, now)
      else
        call('HSET', key, name, value)
        if latest - latest % STEP > ended then
          live_until(key, latest, now)
        end
        if (now + byte(name)) % CLEAN_EVERY == 0 then
          if not clean then
            fetch, keep, find, skip, clean, share, store_shared = define_field(read, end_of, live_until)
          end
          clean(key, name, ended, now)
        end
      end
    end
  end
  if not is_decided then
    if not decide then
      if not fetch then
        fetch, keep, find, skip, clean, share, store_shared = define_field(read, end_of, live_until)
      end
      decide, finish = define_decide(
        read, write, product_over, end_of, begin_state, slide, fetch, keep, find, skip
      )
    end
    local is_done
    is_done, found, refused = pcall(decide, body, before, now, found)
    if not is_done then
      answers[i - 1] = type(found) == 'table' and found or { err = found }
    end
  end
  answers[i - 1] = answers[i - 1] or (refused and refuses or admits) .. found
  before = before + fields
end
if shared then
  store_shared(now)
end
if finish then
  finish(now)
end
return answers
