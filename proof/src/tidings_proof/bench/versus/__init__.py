"""`tidings bench versus`: Tidings beside other servers, the same work on each in turns, and the table with ratios.

rivals.py says what a server of the comparison offers; ours.py, textbook.py, socketio.py and ejabberd.py start one each,
and everyone.py lists them. works.py has the works, idle.py the one that holds connections, and turns.py runs them.
table.py and picture.py show the result.
"""
