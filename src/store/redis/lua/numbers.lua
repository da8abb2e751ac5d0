-- Numbers. All are integers below 2^53, which a Lua number holds exactly, and
-- never become text: tostring() writes 1.76e+15.
--
-- Up to 2^52 a quotient can be rounded down without a thought: floor(a / b) is
-- exact, because what the division rounds is less than 1 / b.

local byte, char, sub, concat = string.byte, string.char, string.sub, table.concat
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local unpack_bytes, pack_bytes = struct.unpack, struct.pack

-- A number of variable length (LEB128: seven bits a byte, the lowest first)
-- and where the next begins. A text that ends too early reads as if zeros followed.
local function read(text, at)
  local first, second, third, fourth = byte(text, at, at + 3)
  if not second or first < 128 then
    return first or 0, at + 1
  end
  local number = first - 128 + second % 128 * 128
  if second < 128 or not third then
    return number, at + 2
  end
  number = number + third % 128 * 16384
  if third < 128 or not fourth then
    return number, at + 3
  end
  number, at = number + fourth % 128 * 2097152, at + 4
  local place = 268435456
  while fourth and fourth >= 128 do
    fourth = byte(text, at) or 0
    number, place, at = number + fourth % 128 * place, place * 128, at + 1
  end
  return number, at
end

-- The same number as bytes.
local function write(number)
  if number < 128 then
    return char(number)
  end
  local second = floor(number / 128)
  if second < 128 then
    return char(number % 128 + 128, second)
  end
  local third = floor(second / 128)
  if third < 128 then
    return char(number % 128 + 128, second % 128 + 128, third)
  end
  return char(number % 128 + 128, second % 128 + 128, third % 128 + 128) .. write(floor(third / 128))
end

-- Quotient and remainder of a * b / divisor, for a < 2^42, b and the divisor
-- < 2^45, and a quotient < 2^52. A product that is too large is divided as one
-- does by hand, with digits of six bits.
local function product_over(a, b, divisor)
  local product = a * b
  if product < 4503599627370496 then
    local quotient = floor(product / divisor)
    return quotient, product - quotient * divisor
  end
  local quotient, remainder, place = 0, 0, 4398046511104
  repeat
    place = place / 64
    local digit = floor(a / place)
    a = a - digit * place
    local part = remainder * 64 + digit * b
    local fits = floor(part / divisor)
    quotient = quotient * 64 + fits
    remainder = part - fits * divisor
  until place == 1
  return quotient, remainder
end
