-- Units in flight at the same time, as `Concurrency` has them, but each node's
-- apart. What a node holds counts for 15 seconds, unless it says again that it
-- holds it; so what a crashed node held comes back. The end is that of the last
-- node. Stored is a block of three numbers for each node: who it is, its units,
-- and how many seconds sooner they end.

local function concurrency()
  local kind = {}
  local SECOND, LEASE_S = 1000000, 15

  function kind.read(charge, body, at)
    charge.limit, charge.node, at = unpack_bytes('<I6I4', body, at)
    return at
  end

  function kind.stand(charge, value, now)
    local state = charge.state
    charge.now, charge.nodes, charge.sum, charge.own = now, {}, 0, nil
    if not state then
      return
    end
    local last_s, at = floor(state.ends / SECOND), select(2, read(value, state.at))
    while at <= state.to do
      local node, units, sooner_s
      node, at = read(value, at)
      units, at = read(value, at)
      sooner_s, at = read(value, at)
      local held = { node = node, units = units, ends_s = last_s - sooner_s }
      if held.ends_s * SECOND > now then
        charge.nodes[#charge.nodes + 1] = held
        charge.sum = charge.sum + units
        charge.own = node == charge.node and held or charge.own
      end
    end
  end

  -- The asking node holds so many units from now on.
  function kind.renew(charge, units)
    if not charge.own then
      charge.own = { node = charge.node }
      charge.nodes[#charge.nodes + 1] = charge.own
    end
    charge.own.units, charge.own.ends_s = units, floor(charge.now / SECOND) + LEASE_S
  end

  function kind.room(charge)
    return charge.limit - charge.sum
  end

  function kind.take(charge, units)
    kind.renew(charge, (charge.own and charge.own.units or 0) + units)
  end

  -- They are given back one for one, so none are added beside.
  function kind.owe() end

  function kind.give(charge, units)
    if charge.own then
      charge.own.units = max(0, charge.own.units - units)
    end
  end

  function kind.ends(charge)
    local last_s = 0
    for _, held in ipairs(charge.nodes) do
      if held.units > 0 then
        last_s = max(last_s, held.ends_s)
      end
    end
    charge.last_s = last_s
    return last_s > 0 and last_s * SECOND or nil
  end

  function kind.numbers(charge)
    local block = {}
    for _, held in ipairs(charge.nodes) do
      if held.units > 0 then
        block[#block + 1] = write(held.node) .. write(held.units) .. write(charge.last_s - held.ends_s)
      end
    end
    block = concat(block)
    return write(#block) .. block
  end

  return kind
end
