"""The units of measure that are known, and their spellings in English and Chinese."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class Unit:
    """``(value + offset) * factor`` is the value in the base unit of the dimension.

    ``symbols`` are written exactly so ("km"), ``words`` in any case.
    """

    name: str
    dimension: str
    factor: Fraction
    symbols: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    offset: Fraction = Fraction(0)


def _unit(
    name: str, dimension: str, factor: str, symbols: str = "", *, words: str = "", offset: str = "0"
) -> Unit:
    def split(listed: str) -> tuple[str, ...]:
        return tuple(filter(None, listed.split("|")))

    return Unit(name, dimension, Fraction(factor), split(symbols), split(words), Fraction(offset))


def _counted(singular: str, plural: str, chinese: str) -> Unit:
    return _unit(singular, f"number of {plural}", "1", words=f"{singular}|{plural}|{chinese}")


def _speed(name: str, factor: str, symbols: str, lengths: str, time: str, *, chinese: str = "") -> Unit:
    words = "|".join(f"{length} per {time}" for length in lengths.split("|"))
    return _unit(name, "speed", factor, symbols, words=f"{words}|{chinese}")


def _squared(lengths: str) -> str:
    return "|".join(f"square {length}" for length in lengths.split("|"))


_METRE = "meter|meters|metre|metres"
_KILOMETRE = "kilometer|kilometers|kilometre|kilometres"
_SQUARED = "|".join(f"{length} per second squared" for length in _METRE.split("|"))

_TEMPERATURES = (
    _unit("kelvin", "temperature", "1", "K", words="kelvin|kelvins|开尔文"),
    _unit(
        "celsius",
        "temperature",
        "1",
        "°C|° C|ºC|℃",
        words="celsius|degree celsius|degrees celsius|degrees c|degrees centigrade|摄氏度|度摄氏",
        offset="273.15",
    ),
    _unit(
        "fahrenheit",
        "temperature",
        "5/9",
        "°F|° F|ºF|℉",
        words="fahrenheit|degree fahrenheit|degrees fahrenheit|degrees f|华氏度",
        offset="459.67",
    ),
)
# A share of something and a move of a rate are both "percent" in loose talk, so basis points do not
# convert to percent: "raised by 25 basis points to 5.5 percent" states two different things.
_SHARES = (
    _unit("percent", "share", "1", "%|％", words="percent|per cent|pct"),
    _unit("basis_point", "rate change", "1", words="bp|bps|basis point|basis points|基点|基準點"),
    _unit("percentage_point", "rate change", "100", "pp", words="percentage point|percentage points|百分点"),
    _unit("multiple", "multiple", "1", words="fold|倍"),
)
_SIZES = (
    _unit("millimetre", "length", "1/1000", "mm", words="millimeter|millimeters|millimetre|millimetres|毫米"),
    _unit("centimetre", "length", "1/100", "cm", words="centimeter|centimeters|centimetre|centimetres|厘米"),
    _unit("metre", "length", "1", "m", words=f"{_METRE}|米|公尺"),
    _unit("kilometre", "length", "1000", "km", words=f"{_KILOMETRE}|公里|千米"),
    _unit("inch", "length", "0.0254", words="inch|inches|英寸"),
    _unit("foot", "length", "0.3048", "ft", words="foot|feet|英尺"),
    _unit("yard", "length", "0.9144", "yd", words="yard|yards"),
    _unit("mile", "length", "1609.344", "mi", words="mile|miles|英里"),
    _unit(
        "astronomical_unit",
        "length",
        "149597870700",
        "AU|au",
        words="astronomical unit|astronomical units|天文单位",
    ),
    _unit("light_year", "length", "9460730472580800", "ly", words="light year|light years|光年"),
    _unit("square_metre", "area", "1", "m²|m2|m^2", words=_squared(_METRE) + "|平方米|平米"),
    _unit(
        "square_kilometre",
        "area",
        "1000000",
        "km²|km2|km^2",
        words=_squared(_KILOMETRE) + "|平方公里|平方千米",
    ),
    _unit("square_foot", "area", "0.09290304", "sq ft|ft²", words="square foot|square feet|平方英尺"),
    _unit("square_mile", "area", "2589988.110336", "sq mi", words="square mile|square miles|平方英里"),
    _unit("hectare", "area", "10000", "ha", words="hectare|hectares|公顷"),
    _unit("acre", "area", "4046.8564224", words="acre|acres|英亩"),
    _unit("mu", "area", "2000/3", words="亩"),
    _unit(
        "millilitre", "volume", "1/1000", "ml|mL", words="milliliter|milliliters|millilitre|millilitres|毫升"
    ),
    _unit("litre", "volume", "1", "L|l", words="liter|liters|litre|litres|升"),
    _unit(
        "cubic_metre",
        "volume",
        "1000",
        "m³|m3",
        words="cubic meter|cubic meters|cubic metre|cubic metres|立方米",
    ),
    _unit("barrel", "volume", "158.987294928", words="barrel|barrels|桶"),
    _unit("milligram", "mass", "1/1000000", "mg", words="milligram|milligrams|毫克"),
    _unit("gram", "mass", "1/1000", "g", words="gram|grams|克"),
    _unit("jin", "mass", "1/2", words="斤"),
    _unit("kilogram", "mass", "1", "kg", words="kilogram|kilograms|kilo|kilos|公斤|千克"),
    _unit("tonne", "mass", "1000", "t", words="tonne|tonnes|metric ton|metric tons|吨"),
    _unit("ton", "mass", "1000", words="ton|tons"),
    _unit("ounce", "mass", "0.028349523125", "oz", words="ounce|ounces|盎司"),
    _unit("pound", "mass", "0.45359237", "lb|lbs", words="pound|pounds"),
)
_TIMES = (
    _unit("millisecond", "time", "1/1000", "ms", words="millisecond|milliseconds|毫秒"),
    _unit("second", "time", "1", "s", words="second|seconds|sec|秒|秒钟"),
    _unit("minute", "time", "60", "min|mins", words="minute|minutes|分钟"),
    _unit("hour", "time", "3600", "h|hr|hrs", words="hour|hours|小时"),
    _unit("day", "time", "86400", words="day|days|天"),
    _unit("week", "time", "604800", words="week|weeks|周|星期"),
    # Not a number of days: "1 year has 365 days" must not compare the one with the other.
    _unit("month", "calendar time", "1", words="month|months|个月"),
    _unit("year", "calendar time", "12", words="year|years|年|岁"),
)
_SPEEDS = (
    _speed("metre_per_second", "1", "m/s", _METRE, "second", chinese="米/秒|米每秒"),
    _speed(
        "kilometre_per_second",
        "1000",
        "km/s",
        _KILOMETRE,
        "second",
        chinese="公里/秒|公里每秒|千米/秒|千米每秒",
    ),
    _speed(
        "kilometre_per_hour",
        "5/18",
        "km/h|kph|kmh",
        _KILOMETRE,
        "hour",
        chinese="公里/小时|公里每小时|公里/时|千米/小时|千米每小时|千米/时",
    ),
    _speed("mile_per_second", "1609.344", "mi/s", "mile|miles", "second"),
    _speed("mile_per_hour", "0.44704", "mph|mi/h", "mile|miles", "hour", chinese="英里/小时|英里每小时"),
    _speed("foot_per_second", "0.3048", "ft/s", "foot|feet", "second"),
    _unit("knot", "speed", "463/900", "kn|kt", words="knot|knots"),
    _unit(
        "metre_per_second_squared",
        "acceleration",
        "1",
        "m/s²|m/s^2|m/s2",
        words=f"{_SQUARED}|米/秒²|米每二次方秒|米每平方秒",
    ),
)
_PHYSICS = (
    _unit("pascal", "pressure", "1", "Pa", words="pascal|pascals|帕"),
    _unit(
        "hectopascal", "pressure", "100", "hPa|mbar", words="hectopascal|hectopascals|millibar|millibars|百帕"
    ),
    _unit("kilopascal", "pressure", "1000", "kPa", words="kilopascal|kilopascals|千帕"),
    _unit("bar", "pressure", "100000", words="bar|bars"),
    _unit("atmosphere", "pressure", "101325", "atm", words="atmosphere|atmospheres"),
    _unit("psi", "pressure", "6894.757293168", "psi", words="pounds per square inch"),
    _unit("watt", "power", "1", "W", words="watt|watts|瓦"),
    _unit("kilowatt", "power", "1000", "kW", words="kilowatt|kilowatts|千瓦"),
    _unit("megawatt", "power", "1000000", "MW", words="megawatt|megawatts|兆瓦"),
    _unit("gigawatt", "power", "1000000000", "GW", words="gigawatt|gigawatts|吉瓦"),
    _unit("kilowatt_hour", "energy", "1", "kWh", words="kilowatt hour|kilowatt hours|千瓦时"),
    _unit("megawatt_hour", "energy", "1000", "MWh", words="megawatt hour|megawatt hours|兆瓦时"),
    _unit("hertz", "frequency", "1", "Hz", words="hertz|赫兹"),
    _unit("megahertz", "frequency", "1000000", "MHz", words="megahertz|兆赫"),
    _unit("gigahertz", "frequency", "1000000000", "GHz", words="gigahertz|吉赫"),
    _unit("megabyte", "data", "1000000", "MB", words="megabyte|megabytes"),
    _unit("gigabyte", "data", "1000000000", "GB", words="gigabyte|gigabytes"),
    _unit("terabyte", "data", "1000000000000", "TB", words="terabyte|terabytes"),
)
_MONEY = (
    _unit(
        "us_dollar",
        "US money",
        "1",
        "USD",
        words="dollar|dollars|us dollar|us dollars|u.s. dollars|美元|美金",
    ),
    _unit("hong_kong_dollar", "Hong Kong money", "1", "HKD", words="hong kong dollars|港元|港币"),
    _unit("euro", "euro money", "1", "EUR", words="euro|euros|欧元"),
    _unit("pound_sterling", "UK money", "1", "GBP", words="pounds sterling|英镑"),
    _unit("yen", "yen money", "1", "JPY", words="yen|日元|日圆"),
    _unit("yuan", "Chinese money", "1", "CNY|RMB", words="yuan|renminbi|元|元人民币|人民币|块钱"),
)
_COUNTS = (
    _counted("bone", "bones", "块骨头|块骨"),
    _counted("chromosome", "chromosomes", "条染色体"),
    _counted("planet", "planets", "颗行星|大行星|颗大行星|个行星"),
    _counted("state", "states", "州"),
    _unit("person", "count", "1", words="people|persons|人"),
    # Things of which only the words around tell what they are.
    _unit("count", "count", "1"),
)
TABLE = (*_TEMPERATURES, *_SHARES, *_SIZES, *_TIMES, *_SPEEDS, *_PHYSICS, *_MONEY, *_COUNTS)
