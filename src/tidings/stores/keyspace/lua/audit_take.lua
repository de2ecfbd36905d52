#!lua
-- audit_take: hand audit entries to a worker: those of dead workers first, then new ones. Poison goes to the dead.
-- Atomic because an entry that is given up must be among the dead before it leaves the group, and the group is made
-- again where the stream was lost.
-- KEYS  audit  dead
-- ARGV  consumer  limit  idle_ms  deliveries_max  dead_max  ttl_s
-- returns {id, event, ...}          event '' : the entry has none
-- cost O(limit log n)
local stream, dead = KEYS[1], KEYS[2]
local consumer, limit, idle, most = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])

if redis.call('EXISTS', stream) == 0 then
  return {}
end
local left = redis.pcall('XPENDING', stream, 'fold', 'IDLE', idle, '-', '+', limit)
if left.err then
  redis.call('XGROUP', 'CREATE', stream, 'fold', '0')
  left = {}
end
for _, row in ipairs(left) do
  if tonumber(row[4]) >= most then
    local entry = redis.call('XRANGE', stream, row[1], row[1])[1]
    if entry then
      redis.call('XADD', dead, 'MAXLEN', '~', ARGV[5], '*', 'id', row[1], unpack(entry[2]))
      redis.call('EXPIRE', dead, ARGV[6])
    end
    redis.call('XACK', stream, 'fold', row[1])
  end
end

local taken = {}
local function add(entries)
  for _, entry in ipairs(entries) do
    local event = ''
    for i = 1, #entry[2], 2 do
      if entry[2][i] == 'event' then event = entry[2][i + 1] end
    end
    taken[#taken + 1] = entry[1]
    taken[#taken + 1] = event
  end
end
add(redis.call('XAUTOCLAIM', stream, 'fold', consumer, idle, '0-0', 'COUNT', limit)[2])
local wanted = limit - #taken / 2
if wanted > 0 then
  local fresh = redis.call('XREADGROUP', 'GROUP', 'fold', consumer, 'COUNT', wanted, 'STREAMS', stream, '>')
  add(fresh and fresh[1][2] or {})
end
return taken
