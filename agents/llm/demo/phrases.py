"""What the demo model says, in Portuguese and English.

Each phrase is a pair (pt, en). The questions are apart: their key is how the next request tells
what a short answer ("dois", "sim") answers to.
"""

type Pair = tuple[str, str]

QUESTIONS: dict[str, Pair] = {
    "quantity": ("Quantos ingressos você quer?", "How many tickets would you like?"),
    "which_event": ("Qual deles você prefere?", "Which one would you like?"),
    "which_option": ("Qual opção devo reservar?", "Which option should I hold?"),
    "buy": ("Quer que eu finalize a compra?", "Shall I complete the purchase?"),
    "hold_again": (
        "Quer que eu procure e reserve de novo?",
        "Shall I search and hold seats again?",
    ),
    "which_order": ("Qual é o número do pedido?", "What is the order number?"),
    "reason": ("Qual é o motivo do reembolso?", "What is the reason for the refund?"),
    "email_to": (
        "Para qual endereço de e-mail devo enviar?",
        "Which e-mail address should I send it to?",
    ),
    "email_body": ("O que devo escrever na mensagem?", "What should the message say?"),
    "ticket_body": ("O que devo contar à equipe?", "What should I tell the team?"),
}

PHRASES: dict[str, Pair] = {
    "greet": (
        "Olá! Posso procurar eventos, reservar lugares e cuidar dos seus pedidos. "
        "O que você gostaria de assistir?",
        "Hello! I can find events, hold seats and look after your orders. "
        "What would you like to see?",
    ),
    "how_are_you": (
        "Tudo ótimo por aqui! E com você? Se quiser, já procuro um evento.",
        "All good here! And you? I can look up an event for you whenever you like.",
    ),
    "thanks": ("Por nada! Se precisar de mais alguma coisa, é só chamar.",
               "You're welcome! Just ask if you need anything else."),
    "bye": ("Até logo, e bom espetáculo!", "Goodbye, and enjoy the show!"),
    "who": (
        "Sou o assistente da bilheteria em **modo de demonstração**: um modelo movido por regras, "
        "não por inteligência artificial de verdade. Ainda assim procuro eventos, reservo lugares, "
        "compro, acompanho pedidos e peço reembolsos, tudo no sistema real.",
        "I'm the box office assistant in **demo mode**: a model driven by rules, not a real "
        "language model. Still, I search events, hold seats, buy, follow orders and ask for "
        "refunds, all in the real system.",
    ),
    "help": (
        "Posso procurar eventos, reservar e comprar lugares, consultar pedidos, pedir reembolsos, "
        "enviar e-mails e abrir chamados. Por exemplo:\n\n"
        "- \"encontre dois assentos abaixo de R$ 300 para sábado e reserve-os\"\n"
        "- \"quais shows tem no fim de semana?\"",
        "I can find events, hold and buy seats, check orders, ask for refunds, send e-mails and "
        "open support tickets. For example:\n\n"
        "- \"find two seats under R$ 300 for Saturday and hold them\"\n"
        "- \"what's on this weekend?\"",
    ),
    "unknown": (
        "Desculpe, não entendi. Sou um modelo de demonstração e sigo regras simples. Tente algo "
        "como:\n\n"
        "- \"encontre dois assentos abaixo de R$ 300 para sábado e reserve-os\"\n"
        "- \"qual é o status do meu pedido?\"",
        "Sorry, I didn't get that. I'm a demo model and follow simple rules. Try something "
        "like:\n\n"
        "- \"find two seats under R$ 300 for Saturday and hold them\"\n"
        "- \"what is the status of my order?\"",
    ),
    "no": ("Tudo bem. Se mudar de ideia, é só dizer.", "All right. Just say so if you change"
    " your mind."),
    "no_hold_stays": (
        "Tudo bem, não comprei nada. A reserva vale até **{time}**; depois disso os lugares voltam "
        "à venda. Se quiser, libero agora.",
        "All right, I bought nothing. The hold lasts until **{time}**; after that the seats go "
        "back on sale. I can release it now if you like.",
    ),
    "never_mind": ("Sem problemas, deixei de lado. Em que mais posso ajudar?",
                   "No problem, I dropped it. What else can I do for you?"),
    "yes_to_what": (
        "Certo! Diga o que você quer que eu faça: procurar um evento, reservar lugares ou cuidar "
        "de um pedido?",
        "Great! Tell me what to do: find an event, hold seats, or look after an order?",
    ),
    # Events
    "events_one": ("Encontrei um evento{filters}:", "I found one event{filters}:"),
    "events_many": ("Encontrei {total} eventos{filters}:", "I found {total} events{filters}:"),
    "events_more": ("… e mais {count}.", "… and {count} more."),
    "events_next": (
        "Quer lugares em algum deles? Diga qual e quantos ingressos.",
        "Would you like seats for one of them? Tell me which one and how many tickets.",
    ),
    "events_next_one": (
        "Quer lugares? Diga quantos ingressos.",
        "Would you like seats? Tell me how many tickets.",
    ),
    "events_none": (
        "Não encontrei nenhum evento{filters}. Posso procurar em outra data, com outro preço ou "
        "em outra cidade.",
        "I found no event{filters}. I can look for another date, price or city.",
    ),
    "events_relaxed": (
        "Não encontrei nada para **{query}**, mas há estes eventos{filters}:",
        "I found nothing for **{query}**, but there are these events{filters}:",
    ),
    "events_full": (
        "Os eventos que encontrei{filters} não têm {quantity} lugares livres. Posso procurar em "
        "outra data ou com outro preço.",
        "The events I found{filters} don't have {quantity} free seats. I can look for another "
        "date or price.",
    ),
    "event_line": (
        "**{title}** — {when}, {where}, {price}{sold_out}",
        "**{title}** — {when}, {where}, {price}{sold_out}",
    ),
    "from_price": ("a partir de {price}", "from {price}"),
    "sold_out": (" (esgotado)", " (sold out)"),
    "event_chosen": ("**{title}** — {when}, {where}, {price}.", "**{title}** — {when}, {where},"
    " {price}."),
    "no_such_item": (
        "A lista só vai até {count}.",
        "The list only goes up to {count}.",
    ),
    # Seats
    "too_many": (
        "Consigo tratar de no máximo {limit} lugares por vez. Quer reduzir para {limit}?",
        "I can handle at most {limit} seats at a time. Would you like {limit} instead?",
    ),
    "options": (
        "Opções para **{title}**, {when}:",
        "Options for **{title}**, {when}:",
    ),
    "option_line": ("{seats}: {total}{apart}", "{seats}: {total}{apart}"),
    "apart": (" (separados)", " (not together)"),
    "options_none": (
        "Não há {seats} juntos{price} para **{title}**. Posso procurar lugares separados, com "
        "outro preço ou em outra data.",
        "There are no {seats} together{price} for **{title}**. I can look for separate seats, "
        "another price or another date.",
    ),
    "options_none_apart": (
        "Não há {seats}{price} para **{title}**. Posso procurar com outro preço ou em outra data.",
        "There are no {seats}{price} for **{title}**. I can look for another price or date.",
    ),
    "held": (
        "Reservei {seats} para **{title}**, {when}: {total} no total. A reserva vale até "
        "**{time}**.",
        "I'm holding {seats} for **{title}**, {when}: {total} in total. The hold lasts until "
        "**{time}**.",
    ),
    "held_other": (
        "Os primeiros lugares tinham acabado de sair, então peguei os seguintes. ",
        "The first seats had just been taken, so I took the next ones. ",
    ),
    "taken": (
        "Esses lugares acabaram de ser levados por outra pessoa, e não consegui outros iguais.",
        "Someone else has just taken those seats, and I couldn't get others like them.",
    ),
    "no_hold": (
        "Você não tem nenhuma reserva ativa nesta conversa. Quer que eu procure lugares? Diga o "
        "evento ou a data e quantos ingressos.",
        "You have no active hold in this conversation. Shall I look for seats? Tell me the event "
        "or the date and how many tickets.",
    ),
    "my_hold": (
        "Você tem uma reserva de {seats} para **{title}**, {when}: {total}, até **{time}**.",
        "You have a hold of {seats} for **{title}**, {when}: {total}, until **{time}**.",
    ),
    "released": (
        "Pronto, a reserva foi cancelada e os lugares voltaram à venda. Nada foi cobrado.",
        "Done, the hold is released and the seats are back on sale. Nothing was charged.",
    ),
    # Orders
    "paid": (
        "Compra concluída! {seats} para **{title}**, {when}: {total}.\n\nNúmero do pedido: "
        "`{order_id}`. Bom espetáculo!",
        "Purchase complete! {seats} for **{title}**, {when}: {total}.\n\nOrder number: "
        "`{order_id}`. Enjoy the show!",
    ),
    "order": (
        "Pedido de **{title}**, {when}: {seats}, {total}. Situação: **{status}**.",
        "Order for **{title}**, {when}: {seats}, {total}. Status: **{status}**.",
    ),
    "order_refund": ("Reembolso de {amount}: **{status}**.", "Refund of {amount}: **{status}**."),
    "orders_several": (
        "Você tem mais de um pedido nesta conversa:",
        "You have more than one order in this conversation:",
    ),
    "refunded": (
        "O reembolso de {amount} foi feito. O valor volta pelo mesmo meio de pagamento.",
        "The refund of {amount} is done. The money goes back the way it was paid.",
    ),
    # Messages
    "emailed": ("E-mail enviado para {to}.", "E-mail sent to {to}."),
    "ticket_opened": (
        "Abri um chamado para a equipe de atendimento. Alguém vai responder em breve.",
        "I opened a support ticket. Someone from the team will answer soon.",
    ),
    "email_subject": ("Mensagem da bilheteria", "Message from the box office"),
    "ticket_subject": ("Pedido de atendimento", "Request for assistance"),
    # Gates and failures
    "pending_confirmation": (
        "Falta só a sua confirmação: use o botão que apareceu na conversa.",
        "I only need your confirmation: use the button in the conversation.",
    ),
    "pending_approval": (
        "Enviei o pedido para aprovação da equipe. Assim que decidirem, aviso aqui; enquanto isso, "
        "podemos continuar conversando.",
        "I sent the request to the team for approval. I'll tell you here as soon as they decide; "
        "meanwhile we can go on talking.",
    ),
    "denied": ("O pedido foi negado.", "The request was denied."),
    "denied_why": ("O pedido foi negado: {reason}", "The request was denied: {reason}"),
    "declined_by_fan": ("Tudo bem, não fiz nada.", "All right, I did nothing."),
    "sign_in": (
        "Para {action} é preciso entrar na sua conta. Depois disso, é só pedir de novo.",
        "To {action} you need to sign in. After that, just ask again.",
    ),
    "not_here": (
        "Não consigo {action} por aqui.",
        "I can't {action} here.",
    ),
    "stopped": (
        "Cheguei ao limite do que posso fazer agora e precisei parar por aqui.",
        "I reached the limit of what I can do right now and had to stop here.",
    ),
    "error_needs_person": (
        "Isso precisa da aprovação de uma pessoa da equipe, e o seu plano não inclui isso. Posso "
        "passar a conversa para o atendimento.",
        "That needs the approval of a person of the team, which your plan does not include. I can "
        "pass the conversation on to support.",
    ),
    "error_closed": (
        "As vendas para esse evento estão encerradas. Posso procurar outra data ou outro evento.",
        "Tickets for that event are no longer on sale. I can look for another date or event.",
    ),
    "error_hold_gone": (
        "Essa reserva não está mais ativa; nada foi cobrado agora.",
        "That hold is no longer active; nothing was charged now.",
    ),
    "found_so_far": ("O que encontrei até aqui:", "What I found so far:"),
    "error_approval_expired": (
        "Ninguém decidiu a tempo, então nada foi feito. Posso pedir de novo, se quiser.",
        "Nobody decided in time, so nothing was done. I can ask again if you like.",
    ),
    "error_approval_withdrawn": (
        "O pedido foi retirado, então nada foi feito.",
        "The request was withdrawn, so nothing was done.",
    ),
    "error_approval_void": (
        "As condições mudaram depois da aprovação, então nada foi feito. Quer que eu peça de novo?",
        "Things changed after the approval, so nothing was done. Shall I ask again?",
    ),
    "approved_by_team": ("A equipe aprovou. ", "The team approved it. "),
    "error_expired": (
        "A reserva expirou e os lugares voltaram à venda; nada foi cobrado.",
        "The hold has expired and the seats are back on sale; nothing was charged.",
    ),
    "error_not_found": (
        "Não encontrei o que você pediu: pode ter sido digitado errado ou não estar na sua conta.",
        "I couldn't find that: it may be mistyped, or not be in your account.",
    ),
    "error_rate": (
        "Recebi pedidos demais em pouco tempo. Espere um instante e tente de novo.",
        "There were too many requests in a short time. Please wait a moment and try again.",
    ),
    "error_permission": (
        "Sua conta não permite fazer isso por aqui.",
        "Your account doesn't allow that here.",
    ),
    "error_busy": (
        "O sistema não respondeu a tempo e não sei se posso insistir agora. Tente de novo em"
        " alguns "
        "minutos.",
        "The system didn't answer in time. Please try again in a few minutes.",
    ),
    "error_unknown": (
        "Não tenho certeza se a operação foi concluída. A equipe vai verificar; por segurança, não "
        "vou repetir.",
        "I'm not sure whether that went through. The team will check; to be safe I won't repeat"
        " it.",
    ),
    "error_payment": (
        "O pagamento não foi aceito. Nada foi cobrado, e os lugares continuam reservados.",
        "The payment was not accepted. Nothing was charged, and the seats are still held.",
    ),
    "error_done": (
        "Isso já tinha sido feito antes, então não fiz de novo.",
        "That had already been done, so I didn't do it again.",
    ),
    "error_input": (
        "O sistema não aceitou os dados do pedido. Pode dizer de outro jeito?",
        "The system didn't accept the details of the request. Could you put it another way?",
    ),
    "error_other": (
        "Algo deu errado do nosso lado e não consegui concluir. Posso tentar outra coisa?",
        "Something went wrong on our side and I couldn't finish. Can I try something else?",
    ),
}  # fmt: skip

ACTIONS: dict[str, Pair] = {
    "search_events": ("procurar eventos", "search events"),
    "search_seats": ("procurar lugares", "search seats"),
    "hold_seats": ("reservar lugares", "hold seats"),
    "release_hold": ("liberar uma reserva", "release a hold"),
    "place_order": ("comprar ingressos", "buy tickets"),
    "get_order_status": ("consultar pedidos", "check orders"),
    "refund_order": ("pedir um reembolso", "ask for a refund"),
    "send_email": ("enviar e-mails", "send e-mails"),
    "create_ticket": ("abrir um chamado", "open a support ticket"),
}

STATUSES: dict[str, Pair] = {
    "pending": ("pendente", "pending"),
    "paid": ("pago", "paid"),
    "confirmed": ("confirmado", "confirmed"),
    "cancelled": ("cancelado", "cancelled"),
    "refunded": ("reembolsado", "refunded"),
    "partially_refunded": ("reembolsado em parte", "partly refunded"),
    "failed": ("não concluído", "failed"),
    "requested": ("solicitado", "requested"),
    "approved": ("aprovado", "approved"),
    "denied": ("negado", "denied"),
    "expired": ("expirado", "expired"),
    "active": ("ativo", "active"),
}


def say(key: str, language: str, **values: object) -> str:
    """Return a phrase or a question in the language, filled in."""
    pair = QUESTIONS.get(key) or PHRASES[key]
    return _pick(pair, language).format(**values)


def action_name(tool: str, language: str) -> str:
    """Return what a tool does, as an infinitive."""
    fallback = ("fazer isso", "do that")
    return _pick(ACTIONS.get(tool, fallback), language)


def status_name(status: str, language: str) -> str:
    return _pick(STATUSES[status], language) if status in STATUSES else status.replace("_", " ")


def open_question(reply: str) -> str:
    """Return the key of the question that a reply ends with, or ""."""
    tail = reply[-200:]
    for key, pair in QUESTIONS.items():
        if any(question in tail for question in pair):
            return key
    return ""


def _pick(pair: Pair, language: str) -> str:
    return pair[1] if language == "en" else pair[0]
