"""Identifiers in words, for the inbox."""

from django import template

from approvals import wording

register = template.Library()
register.filter("action_words", wording.action_words)
register.filter("spoken", wording.spoken)
