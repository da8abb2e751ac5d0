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

  function kind.stand(charge, value, now)
    local newest, state, buckets = floor(now / charge.length), charge.state, charge.buckets
    charge.counts, charge.sum, charge.newest = {}, 0, newest
    if not state then
      return
    end
    local latest = floor(state.ends / charge.length) - buckets - 1
    local later, at = read(value, state.at)
    at = select(2, read(value, at))
    newest = max(newest, latest + later)
    local index = latest
    while at <= state.to and index >= newest - buckets do
      local count
      count, at = read(value, at)
      charge.counts[index] = count
      charge.sum = charge.sum + count
      index = index - 1
    end
    if charge.sum > 0 then
      charge.newest = newest
    end
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
