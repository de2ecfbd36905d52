-- whole: is everything of this user there, as the mark says? `m` begins with the mark's :epoch * :unread :convs :cold :put.
-- Otherwise the user is COLD from here on, and the next reader rebuilds. A marker whose time is over is
-- that of a node that died between the tables and the keyspace: its conversation goes COLD, or all of the user where it
-- names none. Then `m` holds the totals without the conversation.
local function chill(mark, m, id, cap)
  if not id or id == '' then
    return false
  end
  local fields = redis.call('HMGET', mark, id, '~' .. id)
  if not (fields[1] or fields[2]) then
    return false
  end
  if fields[1] then
    local seen, count, floor = string.match(fields[1], '^%[%d+,%d+,(%d+),(%d+),%d+,(%d+),')
    local shown = tonumber(floor) > tonumber(seen) and tonumber(cap) or tonumber(count)
    m[3], m[4], m[5] = m[3] - shown, m[4] - (shown > 0 and 1 or 0), m[5] + 1
    redis.call('HSET', mark, ':unread', m[3], ':convs', m[4], ':cold', m[5])
    redis.call('HDEL', mark, id)
  end
  redis.call('HSET', mark, '~' .. id, string.format('%.0f', redis.call('HINCRBY', mark, ':gen', 1)))
  return true
end

local function is_whole(inbox, mark, m, epoch, cap)
  if m[1] ~= epoch or not (m[2] and m[3] and m[4] and m[5]) then
    return false
  end
  local size, put = tonumber(m[2]), m[6]
  local whole = redis.call('ZCARD', inbox) == size and redis.call('HLEN', mark) == 6 + size + (put and 1 or 0)
  if put then -- the oldest marker comes first
    local time = redis.call('TIME')
    local now, left = time[1] * 1000 + time[2] / 1000, {}
    if tonumber(string.match(put, '^%d+')) < now then
      for note in string.gmatch(put, '%S+') do
        if tonumber(string.match(note, '^%d+')) >= now then
          left[#left + 1] = note -- its node is still at work
        elseif not (whole and chill(mark, m, string.match(note, '^%d+:([^:]*):'), cap)) then
          whole = false
        end
      end
      redis.call('HDEL', mark, ':put')
      if #left > 0 then
        redis.call('HSET', mark, ':put', table.concat(left, ' '))
      end
    end
  end
  if not whole then
    redis.call('HDEL', mark, '*')
  end
  return whole
end
