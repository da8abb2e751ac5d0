-- What a long log looks like to those who ask it: a short log that says the same,
-- so that the answer is short, too.

-- How many units have gone before the first time until which `wanted` were
-- admitted; that time; and the full piece that it is in, or the place behind.
local function freeing(log, wanted)
  if not log.sums then
    local sums, sum = { [0] = 0 }, 0
    for i = 1, log.count do
      local _, units = record(log, i)
      sum = sum + units
      sums[i] = sum
    end
    log.sums = sums
  end
  local sums = log.sums
  local i = first_piece(log, function(i)
    return sums[i] >= wanted
  end)
  local passed, time = sums[i - 1], nil
  if i <= log.count then
    local text = piece(log, i)
    local at, from = START, first_time(text)
    if i == 1 then
      at, from = log.front_at, log.front_time
    end
    passed, time = reach(text, at, from, passed, wanted)
  elseif passed + log.tail_units >= wanted then
    passed, time = reach(log.tail, START, first_time(log.tail), passed, wanted)
  else
    passed, time = passed + log.tail_units, log.newest
  end
  return passed, min(time, log.newest), i
end

-- A state of a short log with these entries: times and units in turn.
local function state_of(charge, entries)
  local log, block, sum, before, units = charge.log, {}, 0, entries[1], 0
  local last = before
  for i = 1, #entries + 1, 2 do
    local time = entries[i] and min(entries[i], log.newest)
    if units > 0 and (not time or time > last) then
      block[#block + 1] = write(last - before) .. write(units)
      sum, before, units = sum + units, last, 0
    end
    if time then
      last, units = max(last, time), units + max(0, entries[i + 1])
    end
  end
  block = concat(block)
  local prefix = log.counter .. char(64 + charge.third)
  local lead, ends = begin_state(prefix, charge.third, log.newest + charge.length)
  return lead .. write(max(0, ends - log.newest)) .. write(max(0, log.newest - entries[1]))
    .. write(sum) .. write(#block) .. block
end

-- What the units that are wanted next are free by: what was admitted earlier is
-- taken to be as old as the first entry.
local function for_take(charge, entries)
  local log, cost = charge.log, charge.cost
  local wanted, passed, time = log.sum + cost - charge.limit, nil, nil
  wanted = wanted > 0 and wanted or wanted + cost
  if cost > charge.limit or wanted <= 1 then
    return
  elseif log.wanted ~= wanted then
    log.wanted, log.passed, log.wanted_time = wanted, freeing(log, wanted)
  end
  passed, time = log.passed, log.wanted_time
  entries[2] = passed
  entries[3], entries[4] = time, log.sum - passed - log.newest_units
end

-- The entry that is given back, or the one before it if nothing remains of it.
local function for_give(charge, entries)
  local log, taken = charge.log, charge.taken
  local text, units = log.tail, nil
  if taken == log.newest then
    if text == '' and log.count > 0 then
      text = piece(log, log.count)
    end
    if text ~= '' then
      local _, time = last_entry(text)
      entries[1] = time or entries[1]
    end
    return
  elseif text == '' or taken < first_time(text) then
    local i = piece_at(log, taken)
    text = i and piece(log, i) or ''
  end
  if text ~= '' and taken >= log.front_time then
    text, units = less_at(text, taken, log.sum - log.newest_units)
    if units > 0 then
      entries[1], entries[2] = taken, units
      entries[3], entries[4] = log.newest, log.sum - units - log.newest_units
    end
  end
end

-- For those who go on counting by it: each full piece as one entry at its end.
local function for_estimate(charge, entries)
  local log = charge.log
  local wanted, before = max(1, log.sum + 1 - charge.limit), 0
  local passed, time, place = freeing(log, wanted)
  for i = 1, log.count do
    local last, units = record(log, i)
    if i == place then
      entries[#entries + 1], entries[#entries + 2] = time - 1, passed - before
      entries[#entries + 1], entries[#entries + 2] = time, wanted - passed
      units = units - wanted + before
    end
    before = log.sums[i]
    entries[#entries + 1], entries[#entries + 2] = last, units
  end
  local text, at = log.tail, START
  local units, gap
  time = text ~= '' and first_time(text) or 0
  while at <= #text do
    units, at = read(text, at)
    entries[#entries + 1], entries[#entries + 2] = time, units
    gap, at = read(text, at)
    time = time + gap
  end
end

-- What a log looks like to those who ask it this: a state that says the same.
local function summary(charge)
  local log, op, entries = charge.log, charge.op, {}
  if log.sum == 0 then
    return ''
  elseif op == PEEK or op == OWE then
    for_estimate(charge, entries)
  else
    entries[1], entries[2] = log.front_time, log.sum - log.newest_units
    if op == GIVE then
      for_give(charge, entries)
    else
      for_take(charge, entries)
    end
  end
  entries[#entries + 1], entries[#entries + 2] = log.newest, log.newest_units
  return state_of(charge, entries)
end

