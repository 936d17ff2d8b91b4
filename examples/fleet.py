"""A fleet: zones without any text say when a truck enters, goes on inside and leaves."""

from nearcast import Circle, Engine, Polygon

engine = Engine()
harbour = Polygon([[(151.2, -33.87), (151.22, -33.87), (151.22, -33.85), (151.2, -33.87)]])
engine.subscribe("harbour", region=harbour)
engine.subscribe("depot", region=Circle((151.19, -33.88), radius=800), ops=["add", "remove"])
way = [(151.19, -33.88), (151.195, -33.878), (151.21, -33.865), (151.215, -33.86), (151.3, -33.8)]
for minute, (lon, lat) in enumerate(way):
    for update in engine.publish("truck-17", point=(lon, lat), at=60.0 * minute, ttl=300):
        print(f"{minute} min: {update.op} {update.subscription} {update.message}")
