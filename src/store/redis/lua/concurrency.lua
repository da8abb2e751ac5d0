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

  function kind.stand(charge, now, ends, value, at)
    local nodes, sum, own = {}, 0, nil
    if ends then
      local last_s, size = floor(ends / SECOND), nil
      size, at = read(value, at)
      local after = at + size
      while at < after do
        local held, sooner_s = {}, nil
        held.node, held.units, at = read_two(value, at)
        sooner_s, at = read(value, at)
        held.ends_s = last_s - sooner_s
        if held.ends_s * SECOND > now then
          nodes[#nodes + 1] = held
          sum = sum + held.units
          own = held.node == charge.node and held or own
        end
      end
      at = after
    end
    charge.now, charge.nodes, charge.sum, charge.own = now, nodes, sum, own
    return at
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
