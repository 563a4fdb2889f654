# The live service:
#   docker build -t rankloop .
#   docker run --name rankloop -p 8017:8017 -v rankloop:/store -e RANKLOOP_FEATURES=price,age rankloop
# The first start prints a key with all scopes, once. Every option can be set like this: docs/settings.md.
#   docker exec rankloop rankloop key /store shop --scope rank --scope events
FROM python:3.12-slim
# LightGBM needs OpenMP.
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY pyproject.toml hatch_build.py README.md LICENSE constraints.txt ./
COPY rankloop rankloop
RUN pip install --no-cache-dir --constraint constraints.txt '.[live]'
RUN useradd --create-home rankloop && mkdir /store && chown rankloop /store
USER rankloop
ENV RANKLOOP_STORE=/store RANKLOOP_HOST=0.0.0.0 RANKLOOP_FIRST_KEY=1
# Compiled kernels are kept with the store, so that a restart need not compile them again.
ENV NUMBA_CACHE_DIR=/store/.kernels
VOLUME /store
EXPOSE 8017
# The server answers, or the learner lives, whichever the container runs.
HEALTHCHECK --start-period=90s --timeout=20s CMD ["rankloop", "health"]
ENTRYPOINT ["rankloop"]
CMD ["serve"]
