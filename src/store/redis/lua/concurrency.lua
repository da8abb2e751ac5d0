-- Units in flight at the same time, as `Concurrency` has them, but each node's
-- apart. What a node holds counts for 15 seconds, unless it says again that it
-- holds it; so what a crashed node held comes back. The end is that of the last
-- node. Stored is a block of three numbers for each node: who it is, its units,
-- and how many seconds sooner they end.

local function concurrency()
  local kind = {}
  local SECOND, LEASE_S = 1000000, 15

  function kind.read(body, at)
    local limit, node, after = unpack_bytes('<I6I4', body, at)
    return { limit = limit, node = node, now = 0, nodes = {}, sum = 0, own = nil, last_s = 0 }, after
  end

  function kind.stand(counter, state, now, value)
    counter.now = now
    if not state then
      return
    end
    local last_s, at = floor(state.ends / SECOND), state.at
    while at <= state.to do
      local node, units, sooner_s
      node, at = read(value, at)
      units, at = read(value, at)
      sooner_s, at = read(value, at)
      local held = { node = node, units = units, ends_s = last_s - sooner_s }
      if held.ends_s * SECOND > now then
        counter.nodes[#counter.nodes + 1] = held
        counter.sum = counter.sum + units
        counter.own = node == counter.node and held or counter.own
      end
    end
  end

  -- The asking node holds so many units from now on.
  function kind.renew(counter, units)
    if not counter.own then
      counter.own = { node = counter.node }
      counter.nodes[#counter.nodes + 1] = counter.own
    end
    counter.own.units, counter.own.ends_s = units, floor(counter.now / SECOND) + LEASE_S
  end

  function kind.room(counter)
    return counter.limit - counter.sum
  end

  function kind.take(counter, units)
    kind.renew(counter, (counter.own and counter.own.units or 0) + units)
  end

  -- They are given back one for one, so none are added beside.
  function kind.owe() end

  function kind.give(counter, units)
    if counter.own then
      counter.own.units = max(0, counter.own.units - units)
    end
  end

  function kind.ends(counter)
    local last_s = 0
    for _, held in ipairs(counter.nodes) do
      if held.units > 0 then
        last_s = max(last_s, held.ends_s)
      end
    end
    counter.last_s = last_s
    return last_s > 0 and last_s * SECOND or nil
  end

  function kind.numbers(counter)
    local block = {}
    for _, held in ipairs(counter.nodes) do
      if held.units > 0 then
        block[#block + 1] = write(held.node) .. write(held.units) .. write(counter.last_s - held.ends_s)
      end
    end
    block = concat(block)
    return write(#block) .. block
  end

  return kind
end
