"""Deal alerts: three people, a few messages, and who gets which.

Run it with `python examples/deals.py`.
"""

from nearcast import Box, Circle, Engine, Top

HERE = (151.21, -33.87)


def main() -> None:
    """Subscribe, publish, move, and look at a ranked list."""
    engine = Engine()
    engine.subscribe("ada", "ipad AND (discount OR sale)", Circle(HERE, radius=2000))
    engine.subscribe("bo", "pizza NOT pineapple", Box(151.0, -34.0, 151.4, -33.7))
    engine.subscribe("cleo", "jazz blues", point=HERE, top=Top(k=2, alpha=0.5))

    messages = [
        ("m1", "iPad sale, today only!", (151.205, -33.871)),
        ("m2", "Pineapple pizza, 2 for 1", (151.2, -33.88)),
        ("m3", "Pizza margherita for 5 dollars", (151.2, -33.88)),
        ("m4", "Jazz tonight", (151.22, -33.86)),
    ]
    for id, text, point in messages:
        for update in engine.publish(id, text, point):
            print(f"{update.op:>6}  {update.subscription:<5} {text}")

    engine.publish("works", "Road closed: pizza truck on fire", HERE, ttl=3600)
    engine.subscribe("bo", "closed OR pizza", Circle((151.0, -33.0), radius=1000))
    for update in engine.move("bo", Circle(HERE, radius=1000)):
        print(f"{update.op:>6}  {update.subscription:<5} {update.message} (came into range)")


if __name__ == "__main__":
    main()
