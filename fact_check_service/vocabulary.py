"""Words by what they mean where claims are compared: one sense has many words, and some tell nothing."""

from __future__ import annotations

from fact_check_service.word_lists import listed

STOP_WORDS = listed(
    "a an the of to in on at for by with and or from as is are was were be been being has have had"
    " having it its"
    " this that these those which who whom whose their his her they he she we our i you your will"
    " would can could"
    " may shall should do does did also about around approximately roughly nearly almost some than"
    " then there"
    " after before during per each over under above below up into out more most less only just now"
    " said says say"
    " saying according reported reports report announced announces announce stated states noted"
    " total approx so"
    " today currently still record such very both not no but while when where what how all any"
    " other within between through until since"
    " january february march april may june july august september october november december year years"
)
STOP_CHARACTERS = (
    "的了是在和与为以于其该这那有将已也都又及或并对由从到至"
    "约近超逾达共个名家之后前上下内中会日月年被把让使着过"
)

_ENGLISH = {
    "raise": "raise raised raises raising hike hiked hikes hiking increase increased increases"
    " increasing lift"
    " lifted lifts rise rises rose risen rising grew grow grows grown growth climb climbed jumped"
    " gained surged up",
    "cut": "lost lose loses losing shed sheds shrank shrink"
    " cut cuts cutting lower lowered lowers lowering reduce reduced reduces reducing"
    " reduction decline"
    " declined declines fell fall falls fallen falling drop dropped drops decrease decreased"
    " decreases down slashed trimmed",
    "employ": "employ employs employed employing employee employees workforce staff worker workers headcount",
    "found": "found founded founds founding established establish establishment created incorporated founder",
    "revenue": "revenue revenues sales turnover",
    "profit": "profit profits earnings",
    "cost": "cost costs costing price priced prices fee fees sells charge charges",
    "population": "population inhabitants residents",
    "high": "high height tall elevation heights stands",
    "long": "long length",
    "weigh": "weigh weighs weighed weighing weight mass",
    "open": "open opened opens opening inaugurated",
    "die": "die died dies death dead",
    "born": "born birth",
    "distance": "distance away far apart",
    "area": "area covers cover covering",
    "begin": "begin begins began begun start starts started starting commence commenced",
    "finish": "end ends ended finish finished completed complete completes completion",
    "fed": "fed fomc",
    "last": "lasts lasted lasting duration takes took take",
    "buy": "buy bought buys acquire acquired acquires acquisition purchase purchased",
    "launch": "launch launched launches release released releases unveiled introduced",
    "expire": "expire expires expiry deadline due",
    "mean": "mean average averaged averages averaging",
    "maximum": "maximum max highest peak top",
    "minimum": "minimum min lowest",
    "student": "student students pupils enrolled enrolment enrollment",
    "sign": "sign signed signs signing",
    "meet": "meet met meets meeting meetings",
    "share": "share shares stock stocks",
    "warranty": "warranty guarantee",
    "visitor": "visitor visitors guests tourists",
    "boil": "boil boils boiling",
}
_CHINESE = {
    "raise": "加息 上调 提高 上升 增长 增加 上涨 涨幅 升至 增至 提升 攀升",
    "cut": "降息 下调 降低 下降 减少 下跌 降至 降幅 跌幅 回落 降准",
    "employ": "员工 雇员 职工 雇用 雇佣",
    "found": "成立 创立 创办 建立 创建 始建",
    "revenue": "营收 营业收入 收入 销售额",
    "profit": "净利润 利润 盈利",
    "cost": "售价 价格 票价 定价 单价 费用",
    "population": "人口 居民",
    "high": "海拔 高度 高",
    "long": "长度 全长 总长 长",
    "weigh": "重量 体重 重",
    "open": "开业 开通 启用 开幕 通车 开放",
    "die": "去世 逝世 病逝",
    "born": "出生 生于 诞生",
    "distance": "距离 相距 距",
    "area": "面积 占地",
    "begin": "开始 启动 开工 起",
    "finish": "结束 完成 竣工 建成 完工",
    "fed": "美联储 联邦储备",
    "launch": "发布 推出 上市",
    "maximum": "最高 最大",
    "minimum": "最低 最小",
    "student": "学生 在校生",
    "buy": "收购 购买 买下",
    "sign": "签署 签订",
    "expire": "截止 到期 期限",
    "visitor": "游客 参观者 访客 观众",
    "rate": "利率",
    "boil": "沸点 沸腾",
    "last": "持续 历时 耗时",
}
SENSES = {word: sense for sense, words in _ENGLISH.items() for word in words.split()}
CHINESE_SENSES = {word: sense for sense, words in _CHINESE.items() for word in words.split()}

PHRASES = {
    **dict.fromkeys(("federal reserve board", "federal reserve", "federal open market committee"), " fed "),
    **dict.fromkeys(("european central bank", "欧洲央行", "欧洲中央银行"), " ecb "),
    **dict.fromkeys(("bank of england", "英国央行", "英格兰银行"), " boe "),
    **dict.fromkeys(("bank of japan", "日本央行", "日本银行"), " boj "),
    **dict.fromkeys(
        ("people's bank of china", "people’s bank of china", "中国人民银行", "中国央行"), " pboc "
    ),
    "gross domestic product": " gdp ",
    "国内生产总值": " gdp ",
    "reserve requirement ratio": " rrr ",
    "存款准备金率": " rrr ",
    "loan prime rate": " lpr ",
    "贷款市场报价利率": " lpr ",
    "market value": " capitalization ",
    "united states": " us ",
    "美国": " us ",
    "net income": " profit ",
}
"""Written in lower case; what they stand for is a word by itself."""

OPPOSITES = (
    ("maximum", "minimum"),
    ("import", "export"),
    ("进口", "出口"),
    ("men", "women"),
    ("male", "female"),
    ("男性", "女性"),
    ("男生", "女生"),
    ("adult", "child"),
    ("adult", "children"),
    ("成人", "儿童"),
    ("begin", "finish"),
    ("born", "die"),
    ("gross", "net"),
    ("revenue", "profit"),
    ("buy", "sold"),
    ("indoor", "outdoor"),
    ("urban", "rural"),
    ("城镇", "农村"),
    ("domestic", "international"),
    ("northern", "southern"),
    ("eastern", "western"),
)
"""Pairs that make two subjects different ones however alike the rest is."""
