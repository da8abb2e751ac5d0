-- The decision: all charges of a body are judged first, and what they change is
-- kept only if every binding one fits. A refused body writes nothing.

local PEEK, TAKE, LEASE, GIVE, OWE, RENEW, RESET, RESET_ALL, CANCEL = 0, 1, 2, 3, 4, 5, 6, 7, 8
-- The heads of charges of long logs are not less.
local LONG = 240
-- What has ended is kept for so long: a clock that is set back by less finds nothing
-- forgotten.
local GRACE = 1000000
-- A longer value lies in several pieces.
local COMPACT = 64

-- Made when first needed: a script seldom needs more than one.
local kinds = {}
local function make(number)
  local define = number == 1 and define_sliding_window or number == 2 and define_sub_windows
    or number == 3 and define_fixed_window or number == 4 and define_sliding_log
    or number <= 6 and define_levels or number == 8 and define_ban
    or number == 9 and define_concurrency or define_long_log
  local kind = define(read, write, read_two, write_two, product_over, begin_state, slide)(number)
  kinds[number] = kind
  return kind
end

-- The charges of a body, and its fields' keys, names, values and last charges. To
-- make tables is slow, so the next body uses them again. What a charge says is
-- set when it is read, and what its kind counts with when it is judged.
local charges = {}
local names, values, lasts = {}, {}, {}

local function new_charge()
  return {
    prefix = '', kind = nil, third = 0, op = 0, binding = 0, cost = 0, room = 0,
    from = 0, numbers = 0, after = 0, ends = 0,
    limit = 0, length = 0, window = 0, left = 0, current = 0, previous = 0,
  }
end

-- Reads a charge of a body, and tells where the next one begins.
local function read_charge(charge, body, at)
  local head = byte(body, at + 3)
  local third = head % 16
  local number = (head - third) / 16
  local kind = kinds[number] or make(number)
  local op
  charge.kind, charge.third = kind, third
  charge.prefix, op, charge.binding, charge.cost, at = unpack_bytes('<c4BBI6', body, at)
  charge.op = op
  at = kind.read(charge, body, at)
  if op == LEASE then
    charge.extra, charge.reserve, charge.share, at = unpack_bytes('<I6I6I2', body, at)
  elseif op == RENEW then
    charge.extra, at = unpack_bytes('<I6', body, at)
  elseif op == GIVE or op == CANCEL then
    charge.taken, at = unpack_bytes('<I7', body, at)
  end
  return at
end

-- Reads and judges the charges of one field; one that does not fit changes
-- nothing. It tells where they end, and whether a binding one does not fit.
local function judge(value, body, at, first, last, now)
  local expected, refused = 1, false
  for i = first, last do
    local charge = charges[i] or new_charge()
    charges[i] = charge
    at = read_charge(charge, body, at)
    local kind, from = charge.kind, find(value, charge.prefix, expected)
    if from then
      local ends, numbers = end_of(value, from, charge.third)
      charge.ends = ends
      expected = kind.stand(charge, now, ends, value, numbers)
      charge.from, charge.numbers, charge.after = from, numbers, expected
    else
      charge.ends, charge.from, charge.after = 0, 0, 0
      kind.stand(charge, now)
    end
    if charge.op == TAKE or charge.op == LEASE then
      local room = max(0, kind.room(charge))
      charge.room = room
      if charge.cost > room then
        charge.op = PEEK
        refused = refused or charge.binding == 1
      end
    end
  end
  return at, refused
end

-- Does what a charge asks to how its counter stands.
local function perform(charge, op)
  local kind, cost = charge.kind, charge.cost
  if op == TAKE then
    kind.take(charge, cost)
  elseif op == LEASE then
    -- Beside the cost a share of the room that is left without the reserve, in 1024ths.
    local share = floor((charge.room - cost - charge.reserve) * charge.share / 1024)
    kind.take(charge, cost + max(0, min(share, charge.extra)))
  elseif op == GIVE then
    kind.give(charge, cost, charge.taken)
  elseif op == CANCEL then
    (kind.cancel or kind.give)(charge, cost, charge.taken)
  elseif op == OWE then
    kind.owe(charge, cost)
  elseif op == RENEW then
    kind.renew(charge, cost, charge.extra)
  end
end

-- The state of a charge from now on, if there is one, and when it ends.
local function next_state(charge, value, now)
  local op = charge.op
  if op == PEEK then
    if charge.ends + GRACE <= now then
      return '', 0
    end
    return sub(value, charge.from, charge.after - 1), charge.ends
  end
  perform(charge, op)
  local ends = op ~= RESET and charge.kind.ends(charge) or 0
  if ends <= now then
    return '', 0
  end
  local lead, stored = begin_state(charge.prefix, charge.third, ends)
  return lead .. charge.kind.numbers(charge, stored), stored
end

-- The states of which no charge is, without those that are over, and when the
-- last of them ends.
local function others(value, first, last, now)
  local kept, latest, from = '', 0, 1
  while from <= #value do
    local ends, after = skip(value, from)
    local is_charged = false
    for i = first, last do
      is_charged = is_charged or charges[i].from == from
    end
    if not is_charged and ends + GRACE > now then
      kept, latest = kept .. sub(value, from, after - 1), max(latest, ends)
    end
    from = after
  end
  return kept, latest
end

-- Of a long value what matters to those who ask: the states that they ask for, and
-- of these what they want to know.
local function extract(value, first, last)
  local all = {}
  for i = first, last do
    local charge = charges[i]
    if charge.from > 0 then
      local told = charge.kind.told
      all[#all + 1] = told and sub(value, charge.from, charge.numbers - 1) .. told(charge)
        or sub(value, charge.from, charge.after - 1)
    end
  end
  return concat(all)
end

-- Reads and judges the charges of long logs, which lie in a key of their own. It
-- tells also what the logs look like to those who ask.
local function judge_logs(key, body, at, first, last, now)
  local refused, found = false, ''
  for i = first, last do
    local charge = charges[i] or new_charge()
    charges[i] = charge
    at = read_charge(charge, body, at)
    local kind, op = charge.kind, charge.op
    kind.open(charge, key, now)
    found = found .. kind.summary(charge)
    charge.room = max(0, kind.room(charge))
    if (op == TAKE or op == LEASE) and charge.cost > charge.room then
      charge.op = PEEK
      refused = refused or charge.binding == 1
    end
  end
  return at, refused, found
end

-- Keeps what the charges of long logs change, at the end of the call.
local function settle_logs(first, last)
  for i = first, last do
    local charge = charges[i]
    if charge.op == RESET or charge.op == RESET_ALL then
      charge.kind.reset(charge)
    elseif charge.op ~= PEEK then
      perform(charge, charge.op)
      charge.log.changed = true
    end
  end
end

-- Keeps what the charges of one field change.
local function settle(key, name, value, first, last, now)
  local states, ends, ended, charged, changed = '', 0, 0, 0, false
  for i = first, last do
    local charge = charges[i]
    if charge.op == RESET_ALL then
      keep(key, name, '', value, 0, 0, now)
      return
    end
    changed = changed or charge.op ~= PEEK
    local state, state_ends = next_state(charge, value, now)
    states, ends = i == first and state or states .. state, max(ends, state_ends)
    ended, charged = max(ended, charge.ends), charged + charge.after - charge.from
  end
  if charged < #value then
    local kept, latest = others(value, first, last, now)
    states, ends, ended = states .. kept, max(ends, latest), max(ended, latest)
  end
  if changed then
    keep(key, name, states, value, ends, ended, now)
  end
end

-- Decides one body, whose keys follow the first `before`; the value of its first
-- field may be known. It tells the values that it found, each after its length
-- but the last; and whether the body is refused.
local function decide(body, before, now, known)
  local fields, at, refused, last, found = byte(body), 2, false, 0, ''
  for i = 1, fields do
    local key, name = KEYS[before + i], sub(body, at, at + 6)
    local first, value, refuses, seen = last + 1, nil, nil, nil
    last = last + byte(body, at + 7)
    if byte(body, at + 11) >= LONG then
      at, refuses, seen = judge_logs(key, body, at + 8, first, last, now)
    else
      value = known or fetch(key, name)
      at, refuses = judge(value, body, at + 8, first, last, now)
      seen = #value > COMPACT and extract(value, first, last) or value
    end
    known, refused = nil, refused or refuses
    names[i], values[i], lasts[i] = name, value, last
    found = i < fields and found .. write(#seen) .. seen or found .. seen
  end
  last = 0
  for i = 1, refused and 0 or fields do
    if values[i] then
      settle(KEYS[before + i], names[i], values[i], last + 1, lasts[i], now)
    else
      settle_logs(last + 1, lasts[i])
    end
    last = lasts[i]
  end
  return found, refused
end

-- Writes what all bodies of the call have done to long logs.
local function finish(now)
  if kinds[15] then
    kinds[15].commit(now)
  end
end

return decide, finish
