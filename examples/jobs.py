"""The three best jobs near me, full-time ones alone."""

from nearcast import Engine, Top

engine = Engine()
home, top = (-0.12, 51.5), Top(k=3, alpha=0.4, scale=20_000, min_score=0.2)
engine.subscribe("me", "python data engineer", point=home, top=top, filter="contract:full-time")
for id, title, contract, place in [
    ("j1", "Data engineer", "full-time", (-0.1, 51.51)),
    ("j2", "Python developer", "part-time", (-0.12, 51.5)),
    ("j3", "Python data engineer", "full-time", (-0.3, 51.4)),
]:
    for update in engine.publish(id, title, place, properties={"contract": contract}):
        print(f"{update.op} {update.message} {update.score:.2f} {title}")
