#!lua
-- audit_recount: put sums that were counted from the stream itself in place of a minute's sums.
-- Atomic because no worker may count an entry between the read and the change: after another number of folds the caller
-- reads again. Pending entries of the range are counted now, so they leave the group's list here.
-- KEYS  audit  minute
-- ARGV  folds  from_id  to_id  ttl_s  [field count ...]      (folds: as read before the count; '' there are none)
-- returns 1 done, 0 a fold came between
-- cost O(fields + pending)
local stream, minute = KEYS[1], KEYS[2]
local folds = redis.call('HGET', minute, ':folds') or ''
if folds ~= ARGV[1] then
  return 0
end
repeat
  local left = redis.call('XPENDING', stream, 'fold', ARGV[2], ARGV[3], 1000)
  for _, row in ipairs(left) do
    redis.call('XACK', stream, 'fold', row[1])
  end
until #left == 0
redis.call('DEL', minute)
for i = 5, #ARGV, 2 do
  redis.call('HINCRBY', minute, ARGV[i], ARGV[i + 1])
end
redis.call('HINCRBY', minute, ':folds', (tonumber(folds) or 0) + 1)
redis.call('EXPIRE', minute, ARGV[4])
return 1
