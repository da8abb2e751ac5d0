-- What decisions count with that are not of the commonest kind.

local call, byte, char, sub, concat = redis.call, string.byte, string.char, string.sub, table.concat
local find_text = string.find
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local unpack_bytes, pack_bytes = struct.unpack, struct.pack
local fetch, keep, find, skip = field.fetch, field.keep, field.find, field.skip

-- What ends later is said to end here.
local LATEST = 2861589506580480
-- What has ended is kept for so long: a clock that is set back by less finds nothing
-- forgotten.
local GRACE = 1000000
-- A longer value lies in several pieces.
local COMPACT = 64

-- Two numbers, most of which are small, and where the next begins.
local function read_two(text, at)
  local first, second = byte(text, at, at + 1)
  if second and first < 128 and second < 128 then
    return first, second, at + 2
  end
  first, at = read(text, at)
  second, at = read(text, at)
  return first, second, at
end

-- Two numbers as bytes.
local function write_two(first, second)
  if first < 128 and second < 128 then
    return char(first, second)
  end
  return write(first) .. write(second)
end
