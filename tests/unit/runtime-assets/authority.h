#pragma once
/* Two authorities of nobody, for tests; their keys were thrown away. */

/* CN=a-test-authority, until UTC_UNTIL. */
static const char UTC_PEM[] =
    /* clang-format off */
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBpzCCAU2gAwIBAgIUXuUEzm5PFmV9y8NXjMvZiEsfTGowCgYIKoZIzj0EAwIw\n"
	"KTEMMAoGA1UECgwDb3JnMRkwFwYDVQQDDBBhLXRlc3QtYXV0aG9yaXR5MB4XDTI2\n"
	"MTEyMDE2MjA0MFoXDTQ4MTAxNTE2MjA0MFowKTEMMAoGA1UECgwDb3JnMRkwFwYD\n"
	"VQQDDBBhLXRlc3QtYXV0aG9yaXR5MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE\n"
	"J7Xn4Sx9dAEmkzXINh5tRwNfcEAuBEG5RkPnhML+yZXa0BJi7JVUrCWEoK7bLn8t\n"
	"XTaC4wzPZZsx7rq8HYB7VaNTMFEwHQYDVR0OBBYEFABg++ZNroHIA9b8kgpH34Dw\n"
	"qwLhMB8GA1UdIwQYMBaAFABg++ZNroHIA9b8kgpH34DwqwLhMA8GA1UdEwEB/wQF\n"
	"MAMBAf8wCgYIKoZIzj0EAwIDSAAwRQIhAMbBXuxUufyPniPMLj1LlECaYIer4t2W\n"
	"I3epsWBf/Q9AAiBx1JBqEakMASb0RIMG8lYy+/h3mIfdvKvTw4+VD5vAYw==\n"
	"-----END CERTIFICATE-----\n";
/* clang-format on */
#define UTC_UNTIL 2486391640

/* O=only-an-organisation, until a year beyond 2050, which is written another way. */
static const char GENERAL_PEM[] =
    /* clang-format off */
	"-----BEGIN CERTIFICATE-----\n"
	"MIIBlTCCATugAwIBAgIUALDIcDzr2hEEfZ03VdA2JzDIZ5swCgYIKoZIzj0EAwIw\n"
	"HzEdMBsGA1UECgwUb25seS1hbi1vcmdhbmlzYXRpb24wIBcNMjYxMTIwMTYxOTEz\n"
	"WhgPMjA4MTA4MjMxNjE5MTNaMB8xHTAbBgNVBAoMFG9ubHktYW4tb3JnYW5pc2F0\n"
	"aW9uMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEueVKWLsNqxhcN77qmqmm3BaL\n"
	"P9se5Gb93miGK9/Gl2iu/AxvyWxQsyFWJNct+FhJPHx4jWem9YGgWTrwvt3X5KNT\n"
	"MFEwHQYDVR0OBBYEFLC5E5WQLCAUAUn5FLd+GZ+DSNgzMB8GA1UdIwQYMBaAFLC5\n"
	"E5WQLCAUAUn5FLd+GZ+DSNgzMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZIzj0EAwID\n"
	"SAAwRQIhAJniYmJYblaWtydmOElm8yUDK546ftiXVah0JRgLT6mKAiB6x9lmMq4z\n"
	"negQEoklNSSCwNK6vTZXYe+EdojhpWeJqQ==\n"
	"-----END CERTIFICATE-----\n";
/* clang-format on */
#define GENERAL_UNTIL 3523191553
