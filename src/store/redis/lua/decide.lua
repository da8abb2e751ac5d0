-- The decision: all charges of a body are judged first, and what they change is
-- kept only if every binding one fits. A refused body writes nothing.

local PEEK, TAKE, LEASE, GIVE, OWE, RENEW, RESET, RESET_ALL = 0, 1, 2, 3, 4, 5, 6, 7

-- Made when first needed: a script seldom needs more than one.
local MAKERS = {
  sliding_window, sub_windows, fixed_window, sliding_log, levels, levels, concurrency, ban,
}
local kinds = {}

-- One charge of a body, and the counter that its kind makes of the numbers of
-- its policy. Tables are made with all that they will hold: to grow is slow.
local function read_charge(body, at)
  local number = floor(byte(body, at + 3) / 16)
  local kind = kinds[number] or MAKERS[number](number)
  kinds[number] = kind
  local prefix, counter = sub(body, at, at + 3), nil
  local op, binding, cost
  op, binding, cost, at = unpack_bytes('<BBI6', body, at + 4)
  counter, at = kind.read(body, at)
  local charge = {
    prefix = prefix, kind = kind, counter = counter, state = nil,
    op = op, binding = binding == 1, cost = cost, room = 0,
  }
  if op == LEASE then
    charge.extra, charge.reserve, charge.share, at = unpack_bytes('<I6I6I2', body, at)
  elseif op == GIVE then
    charge.taken, at = unpack_bytes('<I7', body, at)
  end
  return charge, at
end

-- Reads and judges the charges of one principal; one that does not fit changes
-- nothing. It tells where they end, whether a binding one does not fit, and the
-- states that they found, without their ids, or zeros.
local function judge(field, body, at, now)
  local charges, found, refused = {}, '', false
  for i = 1, byte(body, at) do
    local charge
    charge, at = read_charge(body, i == 1 and at + 1 or at)
    for j = 1, #field.states do
      local state = field.states[j]
      if state.prefix == charge.prefix then
        charge.state = state
      end
    end
    local state = charge.state
    found = found .. (state and sub(field.value, state.from + 3, state.to) or '\0')
    charge.kind.stand(charge.counter, state, now, field.value)
    if charge.op == TAKE or charge.op == LEASE then
      charge.room = max(0, charge.kind.room(charge.counter))
      if charge.cost > charge.room then
        refused = refused or charge.binding
        charge.op = PEEK
      end
    end
    charges[i] = charge
  end
  field.charges = charges
  return at, refused, found
end

-- Does what a charge asks to how its counter stands.
local function perform(charge)
  local kind, counter, op, cost = charge.kind, charge.counter, charge.op, charge.cost
  if op == TAKE then
    kind.take(counter, cost)
  elseif op == LEASE then
    -- Beside the cost a share of the room that is left without the reserve, in 1024ths.
    local share = floor((charge.room - cost - charge.reserve) * charge.share / 1024)
    kind.take(counter, cost + max(0, min(share, charge.extra)))
  elseif op == GIVE then
    kind.give(counter, cost, charge.taken)
  elseif op == OWE then
    kind.owe(counter, cost)
  elseif op == RENEW then
    kind.renew(counter, cost)
  end
end

-- Puts the next state of a charge in the place of the one that it found.
local function store(field, charge, now)
  local state, prefix = charge.state, charge.prefix
  if not state then
    state = { prefix = prefix, ends = 0, bytes = nil }
    field.states[#field.states + 1] = state
  end
  local ends = charge.op ~= RESET and charge.kind.ends(charge.counter) or 0
  if ends <= now then
    state.bytes = false
    return
  end
  local unit = 8 ^ (byte(prefix, 4) % 16)
  local units = max(0, ceil((ends - EPOCH) / unit))
  state.ends = EPOCH + units * unit
  state.bytes = prefix .. write(units) .. charge.kind.numbers(charge.counter, state.ends)
end

-- Keeps what the charges of one principal change.
local function settle(field, now)
  for i = 1, #field.charges do
    local charge = field.charges[i]
    if charge.op == RESET_ALL then
      field.states = {}
    elseif charge.op ~= PEEK then
      perform(charge)
      store(field, charge, now)
    end
  end
  close(field, now)
end

-- Decides one body, whose keys follow the first `before`. It answers with one
-- byte, whether it was refused; the time; and the states that were found.
local function decide(body, before, now, time)
  local count, at, refused, answer = byte(body), 2, false, time
  local fields = {}
  for i = 1, count do
    local field = open(KEYS[before + i], sub(body, at, at + 6))
    local refuses, found
    at, refuses, found = judge(field, body, at + 7, now)
    fields[i], refused, answer = field, refused or refuses, answer .. found
  end
  if refused then
    return '\1' .. answer, before + count
  end
  for i = 1, count do
    settle(fields[i], now)
  end
  return '\0' .. answer, before + count
end

local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local answers, before, time = {}, 0, pack_bytes('<I7', now)
for i = 2, #ARGV do
  answers[i - 1], before = decide(ARGV[i], before, now, time)
end
return answers
