-- Sub-windows counted on the safe side, as `SubWindows` has them: the present one
-- and as many before it as there are buckets. The end tells the latest one that
-- counts something. Stored are how many later ones are empty, and a block of
-- the counts, the latest first.

local function sub_windows()
  local kind = {}
  local LARGEST = 4294967295

  function kind.read(body, at)
    local limit, length, buckets, after = unpack_bytes('<I6I6B', body, at)
    local counter = { limit = limit, length = length, buckets = buckets }
    counter.counts, counter.sum, counter.newest, counter.latest = {}, 0, 0, 0
    return counter, after
  end

  function kind.stand(counter, state, now, value)
    local newest, buckets = floor(now / counter.length), counter.buckets
    counter.newest = newest
    if not state then
      return
    end
    local latest = floor(state.ends / counter.length) - buckets - 1
    newest = max(newest, latest + state.first)
    local index, at = latest, state.at
    while at <= state.to and index >= newest - buckets do
      local count
      count, at = read(value, at)
      counter.counts[index] = count
      counter.sum = counter.sum + count
      index = index - 1
    end
    if counter.sum > 0 then
      counter.newest = newest
    end
  end

  function kind.room(counter)
    return counter.limit - counter.sum
  end

  function kind.take(counter, units)
    local counts, newest = counter.counts, counter.newest
    counts[newest] = min((counts[newest] or 0) + units, LARGEST)
  end

  function kind.owe(counter, units)
    kind.take(counter, min(units, max(0, 2 * counter.limit - counter.sum)))
  end

  function kind.give(counter, units, taken)
    local counts = counter.counts
    if counts[taken] then
      counts[taken] = max(0, counts[taken] - units)
    end
  end

  function kind.ends(counter)
    for index = counter.newest, counter.newest - counter.buckets, -1 do
      if (counter.counts[index] or 0) > 0 then
        counter.latest = index
        return (index + counter.buckets + 1) * counter.length
      end
    end
  end

  function kind.numbers(counter)
    local block, used = {}, 0
    for index = counter.latest, counter.newest - counter.buckets, -1 do
      local count = counter.counts[index] or 0
      block[#block + 1] = write(count)
      used = count > 0 and #block or used
    end
    block = concat(block, '', 1, used)
    return write(counter.newest - counter.latest) .. write(#block) .. block
  end

  return kind
end
