-- Bans, as `Ban` has them: the end is when they are forgotten. Stored are how
-- long before it the last one is over, and how many they are.

-- What passes when no ban lasts is not counted.
local UNLIMITED = 549755813887

local function ban()
  local kind = {}
  function kind.read(charge, body, at)
    charge.first, charge.longest, at = unpack_bytes('<I6I6', body, at)
    return at
  end

  function kind.stand(charge, now, ends, value, at)
    charge.now, charge.over, charge.bans = now, 0, 0
    if ends then
      local sooner
      sooner, charge.bans, at = read_two(value, at)
      charge.over = ends - sooner
    end
    return at
  end

  function kind.room(charge)
    return charge.now < charge.over and 0 or UNLIMITED
  end

  function kind.take() end

  function kind.give() end

  function kind.owe(charge, units)
    if units == 0 or charge.now < charge.over then
      return
    end
    if charge.now >= charge.over + charge.longest then
      charge.bans = 0
    end
    charge.over = charge.now + min(charge.longest, charge.first * 2 ^ charge.bans)
    charge.bans = min(charge.bans + 1, 255)
  end

  function kind.ends(charge)
    return charge.bans > 0 and charge.over + charge.longest or nil
  end

  function kind.numbers(charge, ends)
    return write_two(ends - charge.over, charge.bans)
  end

  return kind
end
