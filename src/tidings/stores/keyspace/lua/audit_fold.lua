#!lua
-- audit_fold: count audit entries of one minute into its sums, each entry once.
-- Atomic because the acknowledgement decides: the worker that takes an entry off the group's list counts it.
-- KEYS  audit  minute
-- ARGV  ttl_s  fields_max  [id field count ...]      (field: kind:class:user; past fields_max the user becomes *)
-- returns how many entries were counted
-- cost O(entries)
local stream, minute = KEYS[1], KEYS[2]
local room = tonumber(ARGV[2]) - redis.call('HLEN', minute)
local folded = 0
for i = 3, #ARGV, 3 do
  if redis.call('XACK', stream, 'fold', ARGV[i]) == 1 then
    local field = ARGV[i + 1]
    if redis.call('HEXISTS', minute, field) == 0 then
      room = room - 1
      if room < 0 then field = string.match(field, '^[^:]*:[^:]*:') .. '*' end
    end
    redis.call('HINCRBY', minute, field, ARGV[i + 2])
    folded = folded + 1
  end
end
if folded > 0 then
  redis.call('HINCRBY', minute, ':folds', 1)
  redis.call('EXPIRE', minute, ARGV[1])
end
return folded
