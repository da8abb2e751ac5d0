-- Numbers. All are integers below 2^53, which a Lua number holds exactly, and
-- never become text: tostring() writes 1.76e+15.
--
-- Up to 2^52 a quotient and a remainder are exact, because what the division
-- rounds is less than one part. Quotients are had from remainders, n - n % d
-- over d, because math.floor() takes several times as long; -n % d is what is
-- missing to the next multiple.
--
-- The script runs from its first line in every call, and to define a function
-- takes time, above all one that uses locals around it: for each of them an object
-- is made. So the functions that each call defines use none.

-- A number of variable length (LEB128: seven bits a byte, the lowest first)
-- and where the next begins. A text that ends too early reads as if zeros followed.
local function read(text, at)
  local first, second, third, fourth = string.byte(text, at, at + 3)
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
    fourth = string.byte(text, at) or 0
    number, place, at = number + fourth % 128 * place, place * 128, at + 1
  end
  return number, at
end

-- A number as bytes.
local function write(number)
  local first = number % 128
  if number < 128 then
    return string.char(first)
  end
  number = (number - first) / 128
  if number < 128 then
    return string.char(first + 128, number)
  end
  local second = number % 128
  number = (number - second) / 128
  if number < 128 then
    return string.char(first + 128, second + 128, number)
  end
  local text = string.char(first + 128, second + 128)
  while number >= 128 do
    local digit = number % 128
    text, number = text .. string.char(digit + 128), (number - digit) / 128
  end
  return text .. string.char(number)
end

-- Quotient and remainder of a * b / divisor, for a < 2^42, b and the divisor
-- < 2^45, and a quotient < 2^52. A product that is too large is divided as one
-- does by hand, with digits of six bits.
local function product_over(a, b, divisor)
  local product = a * b
  if product < 4503599627370496 then
    local remainder = product % divisor
    return (product - remainder) / divisor, remainder
  end
  local quotient, remainder, place = 0, 0, 4398046511104
  repeat
    place = place / 64
    local digit = math.floor(a / place)
    a = a - digit * place
    local part = remainder * 64 + digit * b
    local fits = math.floor(part / divisor)
    quotient = quotient * 64 + fits
    remainder = part - fits * divisor
  until place == 1
  return quotient, remainder
end
