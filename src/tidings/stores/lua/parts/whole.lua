-- whole: is everything of this user there, as the mark says? `m` begins with the mark's :epoch * :unread :convs :cold :put.
-- Else the user is COLD from here on, and whoever looks next rebuilds.
local function is_whole(inbox, mark, m, epoch)
  if m[1] ~= epoch or not (m[2] and m[3] and m[4] and m[5]) then
    return false
  end
  local size, put = tonumber(m[2]), m[6]
  local whole = redis.call('ZCARD', inbox) == size and redis.call('HLEN', mark) == 6 + size + (put and 1 or 0)
  if put then -- the oldest note comes first
    local time = redis.call('TIME')
    local now, left = time[1] * 1000 + time[2] / 1000, {}
    if tonumber(string.match(put, '^%d+')) < now then
      whole = false -- left behind by a node that died; who came later is still at it
      for note in string.gmatch(put, '%S+') do
        if tonumber(string.match(note, '^%d+')) >= now then
          left[#left + 1] = note
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
