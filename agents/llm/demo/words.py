"""The vocabulary of the demo model, folded (lower case, no accents)."""

import re


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


SMALL_NUMBERS = {
    "um": 1, "uma": 1, "dois": 2, "duas": 2, "tres": 3, "quatro": 4, "cinco": 5, "seis": 6,
    "sete": 7, "oito": 8, "nove": 9, "dez": 10, "onze": 11, "doze": 12,
    "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8,
    "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
}  # fmt: skip
BIG_NUMBERS = {
    "vinte": 20, "trinta": 30, "quarenta": 40, "cinquenta": 50, "sessenta": 60, "setenta": 70,
    "oitenta": 80, "noventa": 90, "cem": 100, "cento": 100, "duzentos": 200, "trezentos": 300,
    "quatrocentos": 400, "quinhentos": 500, "seiscentos": 600, "setecentos": 700,
    "oitocentos": 800, "novecentos": 900,
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70,
    "eighty": 80, "ninety": 90,
}  # fmt: skip
_BIG = "|".join(BIG_NUMBERS)
_SMALL = "|".join(SMALL_NUMBERS)
_HUNDREDS = r"(?:a|one|two|three|four|five|six|seven|eight|nine)\s+hundred"
BIG_NUMBER_PHRASE = re.compile(
    rf"\b(?:{_HUNDREDS}|{_BIG})"
    rf"(?:(?:\s+(?:e|and)\s+|-)(?:{_BIG}|{_SMALL})|\s+(?:twenty|thirty|forty|fifty|sixty|seventy"
    rf"|eighty|ninety))*\b"
)

ORDINALS = {
    "primeiro": 1, "primeira": 1, "segundo": 2, "segunda": 2, "terceiro": 3, "terceira": 3,
    "quarto": 4, "quarta": 4, "quinto": 5, "quinta": 5, "ultimo": -1, "ultima": -1,
    "first": 1, "second": 2, "third": 3, "fourth": 4, "fifth": 5, "last": -1,
    "1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5,
    "mais barato": 1, "mais barata": 1, "mais em conta": 1, "cheapest": 1,
}  # fmt: skip
CHOICE_FILLERS = _set(
    "nao nope a o as os na no da do de essa esse esta este dessa desse pode ser quero prefiro "
    "fico com escolho vou reserve reservar segure segura pegue pega por favor entao ok certo "
    "sim mesmo the one that this i i'll take want prefer choose book hold get me please yes "
    "then so let's go with for it e pra para mim mostra mostre mostrar ver veja show see quanto "
    "custa"
)

SEAT_NOUNS = (
    "assentos?", "lugar(?:es)?", "ingressos?", "entradas?", "cadeiras?", "poltronas?", "bilhetes?",
    "pessoas?", "tickets?", "seats?", "places?", "people", "persons?", "friends", "amigos",
    "adultos?", "adults?",
)  # fmt: skip

PORTUGUESE = _set(
    "oi ola bom boa dia tarde noite quero queria gostaria preciso encontre encontrar ache achar "
    "procure procurar busque mostre reserve reservar reserva segure assento assentos lugar "
    "lugares ingresso ingressos entrada entradas para pra em no na nos nas do da dos das um uma "
    "uns umas dois duas tres quatro seis sete oito nove dez par abaixo ate menos maximo reais "
    "hoje amanha sabado domingo segunda terca quarta quinta sexta feira fim semana proximo "
    "proxima que com sem sim nao pode comprar compre compra fecha pagar meu minha pedido "
    "reembolso estorno porque posso ir obrigado obrigada valeu tchau quem voce tudo bem qual "
    "quais tem eventos evento shows peca teatro opcao primeira primeiro terceira cancele "
    "cancelar libere e os as ou mais esse essa este esta por favor ajuda ajudar atendente "
    "chamado mande envie sobre dizendo status devolver dinheiro quantos quanto custa juntos "
    "janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro "
    "mes cidade perto barato barata deixa nada isso entao quero-os reserve-os vou desistir "
    "desisti"
)
ENGLISH = _set(
    "hi hello hey good morning afternoon evening i i'd i'm want need would like find search "
    "show me look looking for book hold reserve seat seats ticket tickets a an the in on at of "
    "to two three four five six seven eight nine ten couple pair under below less than up max "
    "budget today tomorrow tonight saturday sunday monday tuesday wednesday thursday friday "
    "weekend week next this that these those with without yes no not can buy purchase pay my "
    "order refund because can't cannot thanks thank you bye who are how what which is there any "
    "events event shows concert concerts play theater theatre option first second third cancel "
    "release and or more please help agent human send mail about saying status money back many "
    "much cheap together january february march april may june july august september october "
    "november december city near it go ahead them do did your name never mind"
)

# Words that say how something is asked for, never what: they are no part of a search text.
FILLERS = _set(
    "a o as os um uma uns umas ao aos de do da dos das em no na nos nas por pelo pela para pra "
    "pro com sem e ou que se me mim eu voce voces ele ela eles elas meu minha meus minhas seu "
    "sua esse essa esses essas este esta estes estas isso isto aquele aquela ai la aqui ja so "
    "tambem tipo algum alguma alguns algumas qualquer quaisquer outro outra outros outras mais "
    "menos muito muita bem bom boa bons boas legal legais bacana bacanas melhor melhores barato "
    "barata baratos baratas favor porfavor pfv oi ola ei dia tarde noite obrigado obrigada sim "
    "nao ok certo quero queria gostaria preciso precisava posso pode poderia podem vou vamos ir "
    "fui tem tera ha havera existe existem estao sao ser seria seja sera foi qual quais quando "
    "onde quanto quantos quantas custa custam como encontre encontrar encontra ache achar acha "
    "procure procurar procura procuro procurando busque buscar busca buscando mostre mostrar "
    "mostra liste listar lista veja ver diga dizer fale falar reserve reservar reserva reserve- "
    "reserve-as reserva-los reserve-o reserve-a segure segurar segura segure-os segure-as "
    "garanta garantir guarde guardar separe separar pegue pegar compre comprar compra compra- "
    "los adquirir assento assentos lugar lugares ingresso ingressos entrada entradas cadeira "
    "cadeiras poltrona poltronas bilhete bilhetes pessoa pessoas amigos vaga vagas evento "
    "eventos show shows espetaculo espetaculos peca pecas apresentacao apresentacoes programa "
    "programacao agenda atracao atracoes sessao sessoes disponivel disponiveis livre livres "
    "junto juntos juntas lado vizinhos vizinhas adjacentes proximos proximas proximo proxima "
    "perto cidade data semana mes fim final preco precos valor reais real brl cada total maximo "
    "ate abaixo acima antes depois partir entre cartaz hora horas coisa coisas algo nada tudo "
    "opcao opcoes alternativa alternativas passeio sair fazer fazendo rolando acontecendo "
    "acontece vai ter i i'd i'm i'll im we we'd us you your my our it its it's he she they them "
    "that this these those the an of in on at to for from with without and or if is are was be "
    "been there there's any some other others more less very good great nice cool best better "
    "cheap cheaper cheapest please hi hello hey thanks thank yes not okay sure can could would "
    "should will shall may want need like love find search look looking get give list tell see "
    "check know book booking hold grab buy purchase seat seats ticket tickets place places spot "
    "spots person people friends event events concert concerts gig gigs plays performance "
    "performances thing things something anything what what's whats which when where how many "
    "much cost costs available free together adjacent next side near neighbouring neighboring "
    "city date day week weekend month price prices value each maximum max under below over "
    "above before after between until by hour hours options option alternative go going does "
    "did happening today tonight have has had about also then lets let's help mostrem queremos "
    "fecha fechar feche fechado fechou pagar pago pague paga pay cancel cancele cancelar "
    "cancela libera libere liberar solta solte release ahead send mande mandar enviar envie "
    "primeiro primeira segundo terceiro terceira ultimo ultima first second third last ajuda "
    "ajudar ajude deixa desisti desisto pista frente fundo meio camarote plateia balcao "
    "mezanino arquibancada front back middle row section reembolso estorno refund pedido "
    "pedidos status reservas dinheiro volta money finaliza finalizar finalize confirma "
    "confirmar confirmo checkout negocio cartao pix credito debito card credit possivel talvez "
    "acho duvida pergunta eh ne pessoal galera familia namorada namorado esposa marido mulher "
    "filho filha mae pai wife husband girlfriend boyfriend family kid sozinho alone wanna gonna "
    "up one ones most nearby around daqui desta deste nesse nesta neste dessa desse verdade "
    "actually instead rather prefiro prefer pensei mesmo agora now entao trocar troca mudar "
    "muda change swap nossa wow lol entendi uai ue hein poxa puxa opa eita"
)
# Words that may stand inside a title ("O Lago dos Cisnes", "Guns and Roses").
CONNECTORS = _set("de do da dos das e o a os as em no na of the and in on at to for com with")

_GENRES = (
    ("teatro", "theater"), ("teatro", "theatre"), ("comedia", "comedy"), ("musica", "music"),
    ("danca", "dance"), ("infantil", "kids"), ("infantil", "children"), ("futebol", "football"),
    ("futebol", "soccer"), ("basquete", "basketball"), ("classica", "classical"),
    ("orquestra", "orchestra"), ("circo", "circus"), ("opera", "opera"), ("humor", "comedy"),
)  # fmt: skip
# A genre in the other language, for catalogues that know it only by that name.
GENRES = {english: portuguese for portuguese, english in _GENRES} | dict(_GENRES)

CITIES = (
    "sao paulo", "rio de janeiro", "belo horizonte", "porto alegre", "salvador", "recife",
    "fortaleza", "curitiba", "brasilia", "manaus", "belem", "goiania", "florianopolis", "vitoria",
    "natal", "joao pessoa", "maceio", "aracaju", "teresina", "sao luis", "cuiaba", "campo grande",
    "palmas", "porto velho", "rio branco", "macapa", "boa vista", "campinas", "santos", "niteroi",
    "ribeirao preto", "sorocaba", "uberlandia", "londrina", "joinville", "juiz de fora",
    "sao jose dos campos", "santo andre", "osasco", "guarulhos", "caxias do sul", "olinda", "rio",
    "sampa", "bh",
)  # fmt: skip
CITY_NICKNAMES = {"rio": "Rio de Janeiro", "sampa": "São Paulo", "bh": "Belo Horizonte"}
