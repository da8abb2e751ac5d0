-- Two numbers, as most kinds store them.

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
