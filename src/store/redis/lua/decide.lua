-- The decision: all charges of a body are judged first, and what they change is
-- kept only if every binding one fits. A refused body writes nothing.

local PEEK, TAKE, LEASE, GIVE, OWE, RENEW, RESET, RESET_ALL = 0, 1, 2, 3, 4, 5, 6, 7

local MAKERS = {
  sliding_window, sub_windows, fixed_window, sliding_log, token_bucket, leaky_bucket, concurrency, ban,
}
local kinds = {}

-- Made when first needed: most scripts need one kind.
local function kind_of(number)
  local kind = kinds[number]
  if not kind then
    kind = MAKERS[number]()
    kinds[number] = kind
  end
  return kind
end

-- One charge of a body, as far as it does not depend on the state.
local function read_charge(body, at)
  local id, head, op, binding, units
  id, head, op, binding, units, at = unpack_bytes('<c3BBBI6', body, at)
  local number = floor(head / 16)
  local charge = { id = id, head = head, op = op, binding = binding == 1, units = units }
  charge.number, charge.kind, charge.unit = number, kind_of(number), 8 ^ (head % 16)
  at = charge.kind.read(charge, body, at)
  if op == LEASE then
    charge.extra, charge.reserve, charge.share, at = unpack_bytes('<I6I6I2', body, at)
  elseif op == GIVE then
    charge.taken, at = unpack_bytes('<I7', body, at)
  end
  return charge, at
end

-- Whether a charge fits. One of nothing always does.
local function fits(charge)
  if charge.op ~= TAKE and charge.op ~= LEASE then
    return true
  end
  charge.room = max(0, charge.kind.room(charge))
  return charge.units <= charge.room
end

-- What a lease takes beside its cost: a share of the room that is left, in
-- 1024ths, without the reserve.
local function extra(charge)
  local share = floor((charge.room - charge.units - charge.reserve) * charge.share / 1024)
  return max(0, min(share, charge.extra))
end

-- Does what the charge asks to how its counter stands.
local function perform(charge)
  local kind, op = charge.kind, charge.op
  if op == TAKE then
    kind.take(charge, charge.units)
  elseif op == LEASE then
    kind.take(charge, charge.units + extra(charge))
  elseif op == GIVE then
    kind.give(charge, charge.units, charge.taken)
  elseif op == OWE then
    kind.owe(charge, charge.units)
  elseif op == RENEW then
    kind.renew(charge, charge.units)
  end
end

-- The charge's next state, in the place of the one before.
local function store(field, charge, now)
  perform(charge)
  local ends = charge.op ~= RESET and charge.kind.ends(charge)
  local state = charge.state
  if not state then
    state = { id = charge.id, kind = charge.number, ends = 0 }
    field.states[#field.states + 1] = state
  end
  if not ends or ends <= now then
    state.bytes = false
    return
  end
  local units = max(0, ceil((ends - EPOCH) / charge.unit))
  state.ends = EPOCH + units * charge.unit
  state.bytes = concat({
    charge.id,
    char(charge.head),
    write(units),
    charge.kind.numbers(charge, state.ends),
  })
end

-- Reads and judges the charges of one principal.
local function judge(field, body, at, now, replies)
  local count, refused = byte(body, at), false
  field.charges = {}
  at = at + 1
  for i = 1, count do
    local charge
    charge, at = read_charge(body, at)
    local state = state_of(field, charge.id, charge.number)
    charge.state = state
    replies[#replies + 1] = state and sub(field.value, state.from + 3, state.to) or '\0'
    charge.kind.stand(charge, field.value, now)
    charge.fits = fits(charge)
    refused = refused or charge.binding and not charge.fits
    field.charges[i] = charge
  end
  return at, refused
end

-- Keeps what the charges of one principal change.
local function settle(field, now)
  local before = end_of(field.states)
  for i = 1, #field.charges do
    local charge = field.charges[i]
    if charge.op == RESET_ALL then
      field.states = {}
    elseif charge.fits and charge.op ~= PEEK then
      store(field, charge, now)
    end
  end
  close(field, before, now)
end

-- Decides one body, whose keys follow the first `keys_before`. It answers with
-- one byte, whether it was refused; the time; and the state that each charge
-- found, without its id, or a zero.
local function decide(body, keys_before, now, time)
  local count, at, refused = byte(body, 1), 2, false
  local fields, replies = {}, { '', time }
  for i = 1, count do
    local field = open(KEYS[keys_before + i], sub(body, at, at + 6))
    local refuses
    at, refuses = judge(field, body, at + 7, now, replies)
    fields[i], refused = field, refused or refuses
  end
  replies[1] = refused and '\1' or '\0'
  if not refused then
    for i = 1, count do
      settle(fields[i], now)
    end
  end
  return concat(replies), keys_before + count
end

local now = tonumber(ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local answers, keys_before, time = {}, 0, pack_bytes('<I7', now)
for i = 2, #ARGV do
  answers[i - 1], keys_before = decide(ARGV[i], keys_before, now, time)
end
return answers
