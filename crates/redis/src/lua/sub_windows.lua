-- Sub-windows counted on the safe side, as `SubWindows` has them: the present one
-- and as many before it as there are buckets. The end tells the latest one that
-- counts something. Stored are how many later ones are empty, and a block of
-- the counts, the latest first.

local function sub_windows()
  local kind = {}
  local LARGEST = 4294967295

  function kind.read(charge, body, at)
    charge.limit, charge.length, charge.buckets, at = unpack_bytes('<I6I6B', body, at)
    return at
  end

  function kind.stand(charge, now, ends, value, at)
    local newest, buckets = floor(now / charge.length), charge.buckets
    local counts, sum = {}, 0
    if ends then
      local latest, later, size = floor(ends / charge.length) - buckets - 1, nil, nil
      later, size, at = read_two(value, at)
      local index, after, stored = latest, at + size, max(newest, latest + later)
      while at < after and index >= stored - buckets do
        counts[index], at = read(value, at)
        sum = sum + counts[index]
        index = index - 1
      end
      at, newest = after, sum > 0 and stored or newest
    end
    charge.newest, charge.counts, charge.sum = newest, counts, sum
    return at
  end

  function kind.room(charge)
    return charge.limit - charge.sum
  end

  function kind.take(charge, units)
    local counts, newest = charge.counts, charge.newest
    counts[newest] = min((counts[newest] or 0) + units, LARGEST)
  end

  function kind.owe(charge, units)
    kind.take(charge, min(units, max(0, 2 * charge.limit - charge.sum)))
  end

  function kind.give(charge, units, taken)
    local counts = charge.counts
    if counts[taken] then
      counts[taken] = max(0, counts[taken] - units)
    end
  end

  function kind.ends(charge)
    for index = charge.newest, charge.newest - charge.buckets, -1 do
      if (charge.counts[index] or 0) > 0 then
        charge.latest = index
        return (index + charge.buckets + 1) * charge.length
      end
    end
  end

  function kind.numbers(charge)
    local block, used = {}, 0
    for index = charge.latest, charge.newest - charge.buckets, -1 do
      local count = charge.counts[index] or 0
      block[#block + 1] = write(count)
      used = count > 0 and #block or used
    end
    block = concat(block, '', 1, used)
    return write(charge.newest - charge.latest) .. write(#block) .. block
  end

  return kind
end
