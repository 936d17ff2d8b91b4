"""Deal alerts that ask for a phrase, a place, a price and what is left."""

from nearcast import Circle, Engine, Message

engine = Engine()
bar = (151.21, -33.87)
engine.subscribe("ada", '"happy hour" AND price:<10 NOT sold-out:true', Circle(bar, radius=500))
engine.subscribe("bo", "cocktail* AND category:drinks", Circle(bar, radius=500), meta={"to": "bo"})
for message in [
    Message("m1", "Happy hour at the Paper Moon", bar, properties={"price": 8}),
    Message("m2", "Happy hour, nearly over", bar, properties={"price": 8, "sold-out": True}),
    Message("m3", "Cocktails at dusk", bar, properties={"category": ["drinks", "music"]}),
]:
    for update in engine.publish(message):
        print(update.op, update.subscription, message.text, update.meta)
