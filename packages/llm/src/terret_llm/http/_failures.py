"""What goes wrong with a server, in words that name the place and the way out."""

import os
import ssl
from dataclasses import replace
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from terret_llm._errors import LlmError
from terret_llm._outcomes import LlmFailure
from terret_llm.settings import ServerSettings
from terret_llm.wire import ProviderErrors

from ._keys import key_place


def silent(settings: ServerSettings, limit: str, seconds: float) -> LlmError:
    """The server was quiet for as long as the setting `limit` allows."""
    text = f"{settings.place} sent nothing of an answer for {seconds:g} s ({limit})"
    return LlmError(LlmFailure(text, "TIMEOUT"))


def endless(settings: ServerSettings) -> LlmError:
    """The whole answer took too long."""
    seconds = settings.total_timeout
    text = f"{settings.place} did not end its answer within {seconds:g} s (totalTimeout)"
    return LlmError(LlmFailure(text, "TIMEOUT"))


def broken(error: httpx2.HTTPError, settings: ServerSettings) -> LlmError:
    """What happened to the connection."""
    if isinstance(error, httpx2.LocalProtocolError):  # its text holds what cannot be sent
        text = f"the request to {settings.place} is no valid HTTP: check the key and the headers"
        return LlmError(LlmFailure(text, "INVALID_REQUEST"))
    place, proxy, cause = settings.place, _proxy(settings), _cause(error)
    if proxy:
        place = f"{place} through the proxy {proxy}"
    code = "TIMEOUT" if isinstance(error, httpx2.TimeoutException) else "TRANSPORT"
    if isinstance(error, httpx2.ConnectTimeout):
        limit = f"{settings.connect_timeout:g} s (connectTimeout)"
        text = f"{place} did not accept a connection within {limit}"
    elif isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        text = f"cannot connect to {place}: {_words(cause)}; {_way_out(cause, settings, proxy)}"
    else:
        text = f"the connection to {place} broke: {_words(cause)}"
    return LlmError(LlmFailure(text, code))


def unusable_proxy(error: Exception) -> LlmError:
    """No client can be made for the proxy that is set; the error's own text may show a password."""
    why = "it is no address such as http://user:password@host:port"
    if isinstance(error, ImportError):
        why = "SOCKS needs the package `socksio`"
    text = f"the proxy cannot be used: {why}; the setting proxy or the environment names it"
    return LlmError(LlmFailure(text, "INVALID_REQUEST"))


def refused(
    response: httpx2.Response, body: bytes, settings: ServerSettings, errors: ProviderErrors
) -> LlmError:
    """The server answered with an error status: what it said, and what can be done about it."""
    failure = errors.of_response(response.status_code, response.headers, body)
    advice = _advice(failure, response, settings)
    if advice:
        failure = replace(failure, message=f"{failure.message.rstrip('. ')}; {advice}")
    return LlmError(failure)


def _advice(failure: LlmFailure, response: httpx2.Response, settings: ServerSettings) -> str:
    if failure.code == "AUTH":
        place = key_place(settings)
        if place is None and not settings.headers:
            return "no key was sent: apiKeyEnv names the variable that holds it"
        return "" if place is None else f"the key is that of {place}"
    if failure.code == "HTTP_404":
        return f"nothing is at {response.request.url}: check baseUrl"
    if failure.code.startswith("HTTP_3"):
        return "redirects are not followed: let baseUrl name where the server is"
    wait = failure.provider_retry_after_ms
    return f"it asks to wait {wait / 1000:g} s" if wait else ""


def _cause(error: BaseException) -> BaseException:
    """The error of the operating system below, or the innermost that says something."""
    found, here = error, error.__cause__ or error.__context__
    while here is not None:
        if isinstance(here, BaseExceptionGroup):
            here = here.exceptions[0]
        if str(here):
            found = here
        here = here.__cause__ or here.__context__
    return found


def _words(cause: BaseException) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message
    if isinstance(cause, ssl.SSLError):
        return (cause.reason or str(cause)).replace("_", " ").lower()
    if isinstance(cause, OSError) and cause.errno is not None:
        # asyncio and trio put the address into the text, which stands in front of it already
        return os.strerror(cause.errno) if cause.errno > 0 else str(cause.strerror)
    return str(cause) or type(cause).__name__


def _way_out(cause: BaseException, settings: ServerSettings, proxy: str) -> str:
    if isinstance(cause, ssl.SSLCertVerificationError):
        return "SSL_CERT_FILE may name the certificates to trust"
    if isinstance(cause, ssl.SSLError):
        return "does it speak TLS? else let baseUrl begin with http://"
    if proxy:
        return "check the proxy"
    return "does the server run?" if settings.is_loopback else "check baseUrl and the network"


def _proxy(settings: ServerSettings) -> str:
    """The address of the proxy in use, without its password; empty without one."""
    if settings.proxy is not None:
        url = settings.proxy.get_secret_value()
    elif settings.is_loopback or proxy_bypass(settings.host):
        return ""
    else:
        proxies = getproxies()
        url = proxies.get(urlsplit(settings.base_url).scheme) or proxies.get("all", "")
    return urlsplit(url if "://" in url else f"http://{url}").netloc.rpartition("@")[2]
