"""Deal alerts that ask for a phrase, a place, a price and what is left."""

from nearcast import Circle, Engine

engine = Engine()
bar = (151.21, -33.87)
engine.subscribe("ada", '"happy hour" AND price:<10 NOT sold-out:true', Circle(bar, radius=500))
engine.subscribe("bo", "cocktail* AND category:drinks", Circle(bar, radius=500), meta={"to": "bo"})
for id, text, properties in [
    ("m1", "Happy hour at the Paper Moon", {"price": 8, "category": "drinks"}),
    ("m2", "Happy hour, nearly over", {"price": 8, "sold-out": True}),
    ("m3", "Cocktails at dusk", {"price": 12, "category": ["drinks", "music"]}),
]:
    for update in engine.publish(id, text, bar, properties=properties):
        print(update.op, update.subscription, update.body["text"], update.meta)
