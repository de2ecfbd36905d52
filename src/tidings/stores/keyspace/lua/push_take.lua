#!lua
-- push_take: hand push jobs to a worker: those of dead workers first, then new ones.
-- Atomic because the group is made again where the stream was lost, and a job that was put off must be either in the
-- stream or in the waiting set, never in neither.
-- KEYS  push  later
-- ARGV  consumer  limit  idle_ms  deliveries_max  jobs_max
-- returns {{id, job, ...}, {id, job, ...}}       jobs to do; jobs that were handed out deliveries_max times already
-- cost O(limit log n)
local stream, later = KEYS[1], KEYS[2]
local consumer, limit, idle, most = ARGV[1], tonumber(ARGV[2]), ARGV[3], tonumber(ARGV[4])
local jobs_max = ARGV[5]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

for _, job in ipairs(redis.call('ZRANGE', later, '-inf', now, 'BYSCORE', 'LIMIT', 0, limit)) do
  redis.call('XADD', stream, 'MAXLEN', '~', jobs_max, '*', 'job', job)
  redis.call('ZREM', later, job)
end

local left = redis.pcall('XPENDING', stream, 'notify', 'IDLE', idle, '-', '+', limit)
if left.err then
  redis.call('XGROUP', 'CREATE', stream, 'notify', '0', 'MKSTREAM')
  left = {}
end
local taken, dead = {}, {}
for _, row in ipairs(left) do
  local entry = redis.call('XCLAIM', stream, 'notify', consumer, idle, row[1])[1]
  if entry and entry[2] then
    local pile = tonumber(row[4]) >= most and dead or taken
    pile[#pile + 1] = entry[1]
    pile[#pile + 1] = entry[2][2]
  end
end
if #taken + #dead < 2 * limit then
  local wanted = limit - (#taken + #dead) / 2
  local fresh = redis.call('XREADGROUP', 'GROUP', 'notify', consumer, 'COUNT', wanted, 'STREAMS', stream, '>')
  for _, entry in ipairs(fresh and fresh[1][2] or {}) do
    taken[#taken + 1] = entry[1]
    taken[#taken + 1] = entry[2][2]
  end
end
return {taken, dead}
