# Read by make together with dropbear's own makefile: its objects without a program, and what differs
# in some of them (see plugins/dropbear.c).
parts: $(filter-out %/dbmulti.o,$(MULTIOBJS)) $(LIBTOM_DEPS)
obj/svr-authpubkey.o: CFLAGS += '-Dstat(path,out)=dropbear_stat(path,out)'
obj/curve25519.o: CFLAGS += -Dgenrandom=dropbear_key_random
# Ciphers work in counter mode, which only encrypts.
obj/common-algo.o obj/crypto_desc.o: CFLAGS += -Daes_desc=aes_enc_desc
# Nothing looks for primes, as no RSA keys are made; the test is only in a table of functions.
$(STATIC_LTC): CFLAGS += -Dmp_prime_is_prime=dropbear_is_prime
