#!lua
-- inbox_install: put a user's whole rebuilt index in place; its unread sets are there already (inbox_place).
-- Conversations that changed since the rebuild began come COLD: they are read again one by one, so a busy user is not
-- rebuilt for ever.
-- Atomic because a half-built inbox must never be seen.
-- KEYS  inbox  mark  inbox_aside  mark_aside
-- ARGV  epoch  token  size  unread_total  conversations  cap  ttl_s
-- returns 1 installed; 0 not: somebody else has it in hand, or something built aside was lost
-- cost O(conversations that changed since the rebuild began)
-- include jitter
local inbox, mark, inbox_aside, mark_aside = KEYS[1], KEYS[2], KEYS[3], KEYS[4]
local size, total, convs, ttl_s = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), jittered(tonumber(ARGV[7]))

local is_whole = redis.call('HGET', mark, ':begun') == ARGV[1] .. ':' .. ARGV[2]
  and redis.call('ZCARD', inbox_aside) == size and redis.call('HLEN', mark_aside) == size
if not is_whole then
  redis.call('UNLINK', inbox_aside, mark_aside)
  return 0
end

local noted = redis.call('HGETALL', mark)
redis.call('UNLINK', inbox, mark)
if size > 0 then
  redis.call('RENAME', inbox_aside, inbox)
  redis.call('RENAME', mark_aside, mark)
end
local fields, gen, cold = {}, 0, 0
for i = 1, #noted, 2 do
  local name, value = noted[i], noted[i + 1]
  if name == ':put' then
    fields[#fields + 1] = name
    fields[#fields + 1] = value
  elseif name == ':gen' then
    gen = tonumber(value)
  end
end
for i = 1, #noted, 2 do
  if string.sub(noted[i], 1, 1) == '+' then
    local id, score = string.sub(noted[i], 2), tonumber(noted[i + 1])
    local packed = redis.call('HGET', mark, id)
    if packed then
      local seen, count, floor = string.match(packed, '^%[%d+,%d+,(%d+),(%d+),%d+,(%d+),')
      local shown = tonumber(floor) > tonumber(seen) and tonumber(ARGV[6]) or tonumber(count)
      total, convs = total - shown, convs - (shown > 0 and 1 or 0)
      redis.call('HDEL', mark, id)
    end
    if score > 0 and redis.call('ZADD', inbox, 'GT', score, id) == 1 then
      size = size + 1
    end
    if packed or score > 0 then
      cold, gen = cold + 1, gen + 1
      redis.call('HSET', mark, '~' .. id, string.format('%.0f', gen))
    end
  end
end
for _, part in ipairs({':epoch', ARGV[1], ':gen', string.format('%.0f', gen), '*', size, ':unread', total,
  ':convs', convs, ':cold', cold}) do
  fields[#fields + 1] = part
end
redis.call('HSET', mark, unpack(fields))
redis.call('EXPIRE', mark, ttl_s)
if size > 0 then
  redis.call('EXPIRE', inbox, ttl_s)
end
return 1
