#!lua
-- push_tidy: take workers off the group's list that have nothing: the one that leaves, and those long gone.
-- Atomic because a worker that is taken off loses its jobs: it must have none at that very moment.
-- KEYS  push
-- ARGV  leaving  idle_ms
-- returns how many were taken off
-- cost O(workers)
local stream = KEYS[1]
local leaving, idle_ms = ARGV[1], tonumber(ARGV[2])

local workers = redis.pcall('XINFO', 'CONSUMERS', stream, 'notify')
if workers.err then
  return 0
end
local gone = 0
for _, row in ipairs(workers) do
  local worker = {}
  for i = 1, #row, 2 do
    worker[row[i]] = row[i + 1]
  end
  if worker.pending == 0 and (worker.name == leaving or worker.idle >= idle_ms) then
    redis.call('XGROUP', 'DELCONSUMER', stream, 'notify', worker.name)
    gone = gone + 1
  end
end
return gone
